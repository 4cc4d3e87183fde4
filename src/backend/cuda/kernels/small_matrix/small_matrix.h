// Linear algebra of small matrices as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"
#include "kernels/small_matrix/run/small_matrix_args.h"

namespace ingot::kernels {

// Comes after axes_cuda_text(); shared by all sizes.
std::string_view small_matrix_cuda_text();
CudaPart small_matrix_cuda_part(const SmallMatrixArgs&, ir::DType);

}  // namespace ingot::kernels
