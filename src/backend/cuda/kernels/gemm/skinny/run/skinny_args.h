// "gemm_skinny": two to eight rows of halves times a B that is contiguous along K.
#pragma once
#include "backend/cuda/kernels/gemm/gemv/run/gemv_args.h"

namespace ingot::kernels {

inline constexpr int64_t max_skinny_rows = 8;
inline constexpr size_t max_skinny_pieces = max_gemm_pieces;  // of B
inline constexpr int skinny_shared = 8 * gemv_shared;         // bytes per half of gated columns

}  // namespace ingot::kernels
