// Attention on CUDA for one set of sizes: blocks of queries, as many a block as fill the GPU.
#pragma once
#include "kernels/launches_cuda_run.h"

namespace ingot::kernels {

// RunKernel::load; the result is an AttentionCudaArgs.
std::shared_ptr<const void> load_attention_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes);
CudaLaunches attention_cuda_launches(const backend::Call&, const CudaMachine&);

}  // namespace ingot::kernels
