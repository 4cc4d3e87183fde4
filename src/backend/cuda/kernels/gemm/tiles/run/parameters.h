// The parameters of Hopper's tile kernels.
#pragma once
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

#define INGOT_CUDA_GEMM_TILES \
  struct alignas(64) TilesParameters { \
    unsigned long a_tiles[16], b_tiles[16]; /* CudaTiles as the driver encodes them */ \
    unsigned long in_tiles[16], out_tiles[16]; /* of the epilogue */ \
    GemmExtents size; \
    GemmShares shares; \
    int taps, chunks; /* of K: (tap, 128 bytes of the innermost index) */ \
    int m_extent[4], k_extent[4]; \
    int first[3], step[3], tap_step[3]; /* pixels, for w, h and d: the first position, the step to the next one, the step from tap to tap */ \
  };

namespace ingot::kernels {

INGOT_CUDA_GEMM_TILES

}  // namespace ingot::kernels
