// A product through a map on CUDA for one set of sizes.
#pragma once
#include "kernels/launches_cuda_run.h"

namespace ingot::kernels {

// RunKernel::load; the result is a MatmulMapCudaArgs.
std::shared_ptr<const void> load_matmul_map_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes);
CudaLaunches matmul_map_cuda_launches(const backend::Call&, const CudaMachine&);

}  // namespace ingot::kernels
