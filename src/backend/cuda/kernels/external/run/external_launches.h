// One launch of the user's kernel.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

// Parameters in order: pointers to the inputs, the numbers (long long and double, or int and float; bool: 1 byte), the sizes behind them, pointers to the results.
// No launch where no result has elements. Error (invalid_input) where the grid cannot be.
CudaLaunches external_cuda_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
