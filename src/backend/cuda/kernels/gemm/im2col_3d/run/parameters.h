// The parameters of convolutions of volumes with few channels.
#pragma once
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

#define INGOT_CUDA_GEMM_IM2COL_3D \
  struct Im2col3dParameters { \
    GemmExtents size; \
    GemmMatrices matrices; \
    long step[4], channel_step; /* elements of A: from volume to volume, plane to plane, line to line, place to place; from channel to channel */ \
    int extent[4]; /* volumes, and planes, lines and columns of output places */ \
    int origin[3], inside[3]; /* the first place, and the extent of A, along d, h, w */ \
  };

namespace ingot::kernels {

INGOT_CUDA_GEMM_IM2COL_3D

}  // namespace ingot::kernels
