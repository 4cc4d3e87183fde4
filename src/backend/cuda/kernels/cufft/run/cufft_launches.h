// Fourier transforms by cuFFT for one set of sizes: complex numbers whose parts lie side by side are read and written where they are, others go through scratch.
#pragma once
#include "backend/cuda/kernels/cufft/run/cufft_args.h"
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

std::shared_ptr<const void> load_cufft(std::span<const std::byte> constants, size_t operands, size_t sizes);
CudaLaunches cufft_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
