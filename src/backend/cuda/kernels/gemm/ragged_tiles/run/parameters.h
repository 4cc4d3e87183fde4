// The parameters of Hopper's tiles for products of experts.
#pragma once
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

#define INGOT_CUDA_GEMM_RAGGED_TILES \
  struct alignas(64) RaggedTilesParameters { \
    unsigned long a_tiles[16], b_tiles[16]; /* CudaTiles as the driver encodes them */ \
    GemmExtents size; \
    int chunks; /* of K, of 128 bytes */ \
  };

namespace ingot::kernels {

INGOT_CUDA_GEMM_RAGGED_TILES

}  // namespace ingot::kernels
