// The parameters of products of experts by tiles that warps copy.
#pragma once
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

#define INGOT_CUDA_GEMM_RAGGED \
  struct RaggedParameters { \
    GemmExtents size; \
    GemmMatrices matrices; \
    long a_step; /* from a row of A to the next */ \
  };

namespace ingot::kernels {

INGOT_CUDA_GEMM_RAGGED

}  // namespace ingot::kernels
