#pragma once
#include <vector>

#include "backend/cuda/kernels/gemm/gemm_site.h"
#include "backend/cuda/kernels/gemm/im2col_2d/run/im2col_2d_args.h"

namespace ingot::backend::cuda {

// One for each layout that A may have; none: it is not a convolution of an image with few channels.
std::vector<kernels::Im2col2d> im2col_2d_of(const GemmSite&);

}  // namespace ingot::backend::cuda
