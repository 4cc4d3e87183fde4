// Stable sorting as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"

namespace ingot::kernels {

// Comes after elements_cuda_text(); shared by all sorts.
std::string_view sort_cuda_text();
std::vector<CudaPart> sort_cuda_parts(ir::DType);
// Sorts keys alone, for other kernels.
std::vector<CudaPart> sort_keys_cuda_parts();

}  // namespace ingot::kernels
