// Independent steps of one kernel on CUDA, for one set of sizes.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

// RunKernel::load; the result knows the steps' kernel and has loaded its constants.
std::shared_ptr<const void> load_concurrent_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes);
CudaLaunches concurrent_cuda_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
