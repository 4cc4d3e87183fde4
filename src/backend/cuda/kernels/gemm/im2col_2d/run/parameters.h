// The parameters of convolutions of images with few channels.
#pragma once
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

#define INGOT_CUDA_GEMM_IM2COL_2D \
  struct Im2col2dParameters { \
    GemmExtents size; \
    GemmMatrices matrices; \
    long image_step, channel_step, line_step; /* elements of A */ \
    int images, rows, columns; /* of output places */ \
    int lines, line; /* of an image; elements of a line */ \
    int whole; /* 1 if all lines are whole vectors at aligned addresses */ \
  };

namespace ingot::kernels {

INGOT_CUDA_GEMM_IM2COL_2D

}  // namespace ingot::kernels
