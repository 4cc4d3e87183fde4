// Scatters as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"
#include "kernels/scatter/run/scatter_args.h"

namespace ingot::kernels {

// Comes after elements_cuda_text(); shared by all scatters.
std::string_view scatter_cuda_text();
// Without the sort of keys.
std::vector<CudaPart> scatter_cuda_parts(const ScatterArgs&, ir::DType);

}  // namespace ingot::kernels
