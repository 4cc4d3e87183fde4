// Stable sorting as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"

namespace ingot::kernels {

// Behind elements_cuda_text(): what all sorts share.
std::string_view sort_cuda_text();
std::vector<CudaPart> sort_cuda_parts(ir::DType);
// Sorts keys alone, for kernels that need an order.
std::vector<CudaPart> sort_keys_cuda_parts();

}  // namespace ingot::kernels
