// What offers of all backends assume of memory, of an EPYC as of an H200: not measured, but counted: what a step of its kind moves (docs/decisions/0151).
#pragma once
#include <cstdint>

namespace ingot::backend::tuning {

inline constexpr double pass_bytes = 16;  // bytes of an element that a separate step for a body moves in float32: the stored sum, written and read, one more operand, the result
inline constexpr double copied_times = 2;  // how often a copy of A moves an element: read and written

inline constexpr int64_t vector_bytes = 16;  // bytes that a thread of a GPU reads at once, the widest load there is, from an address that is a multiple of them

}  // namespace ingot::backend::tuning
