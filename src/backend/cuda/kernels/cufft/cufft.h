// Copies around cuFFT's transforms: they interleave planar complex numbers, and split results into real and imaginary parts.
#pragma once
#include <vector>

#include "backend/cuda/kernels/elements.h"
#include "backend/offer.h"
#include "kernels/fourier/run/fourier_args.h"

namespace ingot::kernels {

// Comes after fourier_cuda_text().
std::string_view cufft_cuda_text();
CudaPart cufft_cuda_part(const FourierArgs&, ir::DType);

}  // namespace ingot::kernels

namespace ingot::backend::cuda {

// A fourier step by cuFFT, of a placed site.
EmittedStep cufft_step(const Site&, const Plain&);

}  // namespace ingot::backend::cuda
