// The parameters of GEMMs of a few rows.
#pragma once
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

#define INGOT_CUDA_GEMM_SKINNY \
  struct SkinnyParameters { \
    GemmExtents size; \
    GemmMatrices matrices; \
    long m_step[4]; /* of the indices of rows, from outermost to innermost: elements of A */ \
    int m_extent[4]; \
  };

namespace ingot::kernels {

INGOT_CUDA_GEMM_SKINNY

}  // namespace ingot::kernels
