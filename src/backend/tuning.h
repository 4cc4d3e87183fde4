// What offers of all backends assume of memory. Not measured: counted from what a step of its kind moves.
#pragma once

namespace ingot::backend::tuning {

inline constexpr double pass_bytes = 16;  // bytes of an element that a separate step for a body moves in float32: the stored sum, written and read, one more operand, the result
inline constexpr double copied_bytes = 4;  // bytes of an element of A that a copy moves in a half type: read and written

}  // namespace ingot::backend::tuning
