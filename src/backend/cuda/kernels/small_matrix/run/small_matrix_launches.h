// Linear algebra of small matrices on CUDA for one set of sizes.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

CudaLaunches small_matrix_cuda_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
