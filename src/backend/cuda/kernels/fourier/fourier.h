// Fourier transforms as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"
#include "backend/offer.h"
#include "kernels/fourier/run/fourier_args.h"

namespace ingot::kernels {

// Comes after axes_cuda_text(); shared by all kinds.
std::string_view fourier_cuda_text();
CudaPart fourier_cuda_part(const FourierArgs&, ir::DType);

}  // namespace ingot::kernels

namespace ingot::backend::cuda {

// The constants of a placed site's step: those of its kernel, and whether its transforms are columns.
kernels::FourierArgs fourier_args(const Site&, const Plain&);
// Device code of transforms of this kind along as many axes: those along the others are of complex numbers.
std::vector<CodeUnit> fourier_code(const kernels::FourierArgs&, ir::DType);

}  // namespace ingot::backend::cuda
