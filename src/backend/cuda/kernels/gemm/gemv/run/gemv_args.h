// "gemm_gemv": one row of halves times a B that is contiguous along K. "gemm_skinny" shares its blocks.
#pragma once
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

namespace ingot::kernels {

inline constexpr int gemv_blocks = 2;  // per multiprocessor
inline constexpr int gemv_shared = 2 * gemv_threads / 32 * 8 * 4;  // bytes per half of gated columns, in addition to the prologue's row
inline constexpr size_t max_gemv_pieces = 4;  // of B
inline constexpr int gemv_ring = 2 * 8 * 16 * gemv_threads;  // bytes: two iterations of int8
inline constexpr int64_t max_gemv_k = 24576;  // elements that fit shared memory besides the above, for two blocks

}  // namespace ingot::kernels
