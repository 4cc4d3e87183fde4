// How updates that are added by atomic operations are divided among threads on a GPU. Estimates for an H200; `python bench/scatter.py --deterministic off` measures them.
#pragma once
#include <cstdint>

#include "ir/dtype.h"

namespace ingot::kernels::scatter_atomics_tuning {

inline constexpr int threads = 256;  // of a block
// Elements of a thread: 16 bytes, which Hopper adds at once. Doubles have no such operation.
constexpr int64_t vector(ir::DType type) { return type == ir::DType::f64 ? 1 : 16 / static_cast<int64_t>(ir::size_of(type)); }

}  // namespace ingot::kernels::scatter_atomics_tuning
