// Fourier transforms as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"
#include "kernels/fourier/run/fourier_args.h"

namespace ingot::kernels {

// Comes after axes_cuda_text(); shared by all kinds.
std::string_view fourier_cuda_text();
CudaPart fourier_cuda_part(const FourierArgs&, ir::DType);

}  // namespace ingot::kernels
