// Sums of updates by atomic operations on floats, as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"
#include "kernels/scatter/run/scatter_args.h"

namespace ingot::kernels {

// Comes after scatter_at_once_cuda_text().
std::string_view scatter_atomics_cuda_text();
CudaPart scatter_atomics_cuda_part(const ScatterArgs&, ir::DType);

}  // namespace ingot::kernels
