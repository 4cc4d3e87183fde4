// Rows combined segment by segment on CUDA, for one set of sizes.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

CudaLaunches reduce_segments_cuda_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
