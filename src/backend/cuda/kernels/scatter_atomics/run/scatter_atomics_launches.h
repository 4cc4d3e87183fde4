// Sums of updates by atomic operations on floats, on CUDA, for one set of sizes. Constants and operands are those of scatter and scatter_along.
#pragma once
#include <string>

#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

// Kernels: name_V for V neighbours that a thread adds. Their parameters are ScatterAtOnceParameters.
std::string scatter_atomics_cuda_name(ir::DType, size_t indices);
CudaLaunches scatter_atomics_cuda_launches(const Call&, const CudaMachine&);
CudaLaunches scatter_along_atomics_cuda_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
