// Parameters and names of the CUDA kernels for small matrices.
//
// A group of 1 to 32 threads of a warp has a matrix, each thread a row in registers. Rows go from thread to thread by shuffles.
#pragma once
#include <string>

#include "backend/cuda/kernels/run/axes.h"
#include "backend/cuda/kernels/small_matrix/run/tuning.h"
#include "ir/dtype.h"
#include "kernels/small_matrix/run/small_matrix_args.h"

// Operands are numbered as in small_matrix_args.h. `columns`: of the right side.
#define INGOT_CUDA_SMALL_MATRIX \
  struct SmallMatrixCudaParameters { \
    unsigned long at[4]; \
    long row[4], column[4]; /* strides */ \
    long count, columns; \
    CudaAxes<4> axes; /* of the batch */ \
  };

namespace ingot::kernels {

INGOT_CUDA_SMALL_MATRIX

// Threads of a matrix: a power of two.
int matrix_group(const SmallMatrixArgs&);
std::string small_matrix_cuda_name(const SmallMatrixArgs&, ir::DType);

}  // namespace ingot::kernels
