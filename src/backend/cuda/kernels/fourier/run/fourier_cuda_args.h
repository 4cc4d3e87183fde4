// Parameters and names of the CUDA kernels for Fourier transforms.
//
// Short transforms are done in shared memory, several in a block, in one launch. Long ones go through scratch: a launch that loads, one for each stage, one that stores. Roots of unity
// are computed first, and for a length with a large prime factor the filter of its convolution.
#pragma once
#include <string>

#include "backend/cuda/kernels/fourier/run/tuning.h"
#include "backend/cuda/kernels/run/axes.h"
#include "ir/dtype.h"
#include "kernels/fourier/run/fourier_args.h"

// Operands are numbered as in fourier_args.h. `length`: of the transform; `n`: of its complex numbers, half of that where neighbours are pairs; `whole`: n, or the power of two of a convolution.
// `parts` and `neighbours`: of the one stage of a launch, whose radix is the first.
#define INGOT_CUDA_FOURIER \
  struct FourierCudaParameters { \
    unsigned long at[4]; \
    unsigned long from, to, roots, filter; /* scratch */ \
    long step[4]; /* strides along the transform */ \
    long count, length, n, whole; \
    long parts, neighbours; \
    long others[2]; /* by cuFFT along several axes: the lengths of the others, the outer one first */ \
    int group; /* transforms of a block */ \
    int across; /* 1: threads side by side load and store the same element of neighbouring transforms */ \
    int pitch; /* complex numbers from one transform of a block to the next */ \
    int stages; \
    int radix[40]; \
    CudaAxes<4> axes; /* of the batch */ \
  };

namespace ingot::kernels {

INGOT_CUDA_FOURIER

inline constexpr int fourier_threads = fourier_tuning::threads;

std::string fourier_cuda_name(const FourierArgs&, ir::DType);

}  // namespace ingot::kernels
