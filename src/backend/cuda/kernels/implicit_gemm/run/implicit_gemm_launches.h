// Implicit GEMM on CUDA for one set of sizes.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

// RunKernel::load; the result is an ImplicitGemmArgs.
std::shared_ptr<const void> load_implicit_gemm_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes);
CudaLaunches implicit_gemm_cuda_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
