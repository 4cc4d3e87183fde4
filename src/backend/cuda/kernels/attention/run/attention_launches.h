// Attention on CUDA for one set of sizes: blocks of queries, of a size that fills the GPU.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

// RunKernel::load; the result is an AttentionCudaArgs.
std::shared_ptr<const void> load_attention_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes);
CudaLaunches attention_cuda_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
