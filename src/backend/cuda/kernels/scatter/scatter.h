// Scatters as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"
#include "kernels/scatter/run/scatter_args.h"

namespace ingot::kernels {

// Behind elements_cuda_text(): what all scatters share.
std::string_view scatter_cuda_text();
// The sort of keys aside.
std::vector<CudaPart> scatter_cuda_parts(const ScatterArgs&, ir::DType);

}  // namespace ingot::kernels
