// The parameters of GEMMs of one row.
#pragma once
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

#define INGOT_CUDA_GEMM_GEMV \
  struct GemvParameters { \
    GemmExtents size; \
    GemmMatrices matrices; \
  };

namespace ingot::kernels {

INGOT_CUDA_GEMM_GEMV

}  // namespace ingot::kernels
