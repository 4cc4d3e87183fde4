// The order of segments on CUDA, for one set of sizes.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

CudaLaunches order_segments_cuda_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
