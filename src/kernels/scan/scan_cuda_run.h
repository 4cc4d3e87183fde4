// A scan on CUDA for one set of sizes.
#pragma once
#include "kernels/launches_cuda_run.h"

namespace ingot::kernels {

CudaLaunches scan_cuda_launches(const backend::Call&, const CudaMachine&);

}  // namespace ingot::kernels
