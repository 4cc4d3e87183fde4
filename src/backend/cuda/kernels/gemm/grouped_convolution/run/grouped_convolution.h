// Convolutions in groups for one set of sizes.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

// RunKernel::load; the result is a GroupedConvolutionArgs.
std::shared_ptr<const void> load_grouped_convolution(std::span<const std::byte> constants, size_t operands, size_t sizes);
CudaLaunches grouped_convolution_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
