// Depthwise convolutions on CUDA for one set of sizes: one thread computes some outputs of a line for some channels.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

// RunKernel::load; the result is a DepthwiseConvCudaArgs.
std::shared_ptr<const void> load_depthwise_conv_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes);
CudaLaunches depthwise_conv_cuda_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
