// The parameters of GEMMs of one row.
#pragma once
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

#define INGOT_CUDA_GEMM_GEMV \
  struct GemvParameters { \
    GemmExtents size; \
    GemmMatrices matrices; \
    unsigned long b_part[3]; /* further parts of B, each from the column of b_part_from on */ \
    int b_part_from[3]; \
  };

namespace ingot::kernels {

INGOT_CUDA_GEMM_GEMV

}  // namespace ingot::kernels
