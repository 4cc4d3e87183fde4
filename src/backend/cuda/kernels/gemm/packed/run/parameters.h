// The parameters of GEMMs by packed weights.
#pragma once
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

#define INGOT_CUDA_GEMM_PACKED \
  struct PackedParameters { \
    GemmExtents size; \
    GemmMatrices matrices; \
    long m_step[4]; /* of the indices of rows, from outermost to innermost: elements of A */ \
    int m_extent[4]; \
    int rows, row_blocks, chunks; /* of a block; blocks that share a panel; of K */ \
  }; \
  struct PackedDecodeParameters { \
    GemmMatrices matrices; \
    unsigned long out; /* [N, K] */ \
    long n, k; \
    int chunks; \
  };

namespace ingot::kernels {

INGOT_CUDA_GEMM_PACKED

}  // namespace ingot::kernels
