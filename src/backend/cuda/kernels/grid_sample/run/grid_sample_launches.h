// Sampling on CUDA for one set of sizes.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

CudaLaunches grid_sample_cuda_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
