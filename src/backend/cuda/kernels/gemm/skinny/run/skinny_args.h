// "gemm_skinny": two to eight rows of halves times a B that is contiguous along K.
#pragma once
#include "backend/cuda/kernels/gemm/gemv/run/gemv_args.h"

namespace ingot::kernels {

inline constexpr int skinny_shared = static_cast<int>(gemm::gemv_tuning::max_skinny_rows) * gemv_shared;  // bytes per half of gated columns

}  // namespace ingot::kernels
