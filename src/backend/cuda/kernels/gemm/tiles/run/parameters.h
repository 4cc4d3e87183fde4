// The parameters of Hopper's tile kernels.
#pragma once
#include "backend/cuda/kernels/gemm/gemv/run/tuning.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

#define INGOT_CUDA_GEMM_TILES \
  template <int Parts> /* the most parts that B has */ \
  struct alignas(64) TilesParametersOf { \
    unsigned long a_tiles[16]; /* CudaTiles as the driver encodes them */ \
    unsigned long in_tiles[16], out_tiles[16]; /* of the epilogue */ \
    unsigned long b_tiles[Parts][16]; \
    GemmExtents size; \
    GemmShares shares; \
    int taps, chunks; /* of K: (tap, 128 bytes of the innermost index) */ \
    int m_extent[4], k_extent[4]; \
    int first[3], step[3], tap_step[3]; /* pixels, for w, h and d: the first position, the step to the next one, the step from tap to tap */ \
    int b_from[Parts]; /* the first column of each part; INT_MAX where there is none */ \
  }; \
  typedef TilesParametersOf<1> TilesParameters;

namespace ingot::kernels {

INGOT_CUDA_GEMM_TILES
typedef TilesParametersOf<static_cast<int>(gemm::gemv_tuning::max_parts_of_b)> TilesOfPartsParameters;

}  // namespace ingot::kernels
