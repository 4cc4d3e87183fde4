// Scatters as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"
#include "kernels/scatter/run/scatter_args.h"

namespace ingot::kernels {

// Comes after elements_cuda_text(); shared by all scatters.
std::string_view scatter_cuda_text();
// The kernels that process points in order, without the sort of keys; none if all are combined at once.
std::vector<CudaPart> scatter_cuda_parts(const ScatterArgs&, ir::DType);
// The same for those that combine updates at once.
std::string_view scatter_at_once_cuda_text();
std::vector<CudaPart> scatter_at_once_cuda_parts(const ScatterArgs&, ir::DType);

}  // namespace ingot::kernels
