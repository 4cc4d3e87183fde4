// The launch of a registered kernel.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

// Parameters in order: pointers to the inputs; the numbers (long long and double, or int and float; bool: 1 byte); the sizes; pointers to the results. No
// launch if no result has elements. Error (invalid_input) for an impossible grid.
CudaLaunches external_cuda_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
