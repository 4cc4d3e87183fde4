// Fourier transforms on CUDA for one set of sizes.
#pragma once
#include "backend/cuda/kernels/fourier/run/fourier_cuda_args.h"
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

// What the operands say: axes of the batch, which are all but the last `inner`, strides along the last one, `length` complex numbers.
FourierCudaParameters fourier_parameters(std::span<const TensorRef> operands, int64_t length, int inner = 1);
CudaLaunches fourier_cuda_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
