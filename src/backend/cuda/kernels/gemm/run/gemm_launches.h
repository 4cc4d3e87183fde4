// Implicit GEMM on CUDA for one set of sizes.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

// RunKernel::load; the result is an GemmArgs.
std::shared_ptr<const void> load_gemm_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes);
CudaLaunches gemm_cuda_launches(const Call&, const CudaMachine&);
// What independent products choose that are launched together: tiles of one size side by side, each the best for it one after another, or each as on its share of the
// multiprocessors. Empty if one of them has no large tiles.
WantedChoices gemm_cuda_choices(std::span<const Call>, const CudaMachine&);

}  // namespace ingot::kernels
