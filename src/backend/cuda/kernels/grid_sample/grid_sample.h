// Elements of images at given places as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"
#include "kernels/grid_sample/run/grid_sample_args.h"

namespace ingot::kernels {

// Comes after axes_cuda_text().
std::string_view grid_sample_cuda_text();
CudaPart grid_sample_cuda_part(const GridSampleArgs&, ir::DType);

}  // namespace ingot::kernels
