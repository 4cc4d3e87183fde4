// Implicit GEMM of half precision, and of float32 by TF32, as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

namespace ingot::kernels {

// What all kernels use; comes after the backend's texts of matrix instructions.
std::string_view gemm_cuda_text();
// Kernels that come after it: those that read A through a map, Hopper's tiles, convolutions of few channels, and few rows.
std::string_view implicit_cuda_text();
std::string_view tiles_cuda_text();
std::string_view im2col_2d_cuda_text();
std::string_view im2col_3d_cuda_text();
std::string_view gemv_cuda_text();

// A kernel around a GEMM's epilogue: `call`(parameters, a function of the row, the first column and the sums of eight adjacent columns).
struct GemmKernel {
  std::string suffix, bounds, call;
  bool aligned;  // operands are accessed in vectors of eight
  bool one_row = false;  // it can have a prologue (gemv_along_k), or has a few rows; B may be in pieces
  int cluster = 1;       // blocks in a cluster
};
// The kernels of a step. `b_constant`: no step of the program writes B. `large`: with the kernels for Hopper that fit `columns` columns of the result. `pixels`:
// rows of A are positions in an image (2) or a volume (3); 0: A is a matrix.
std::vector<GemmKernel> implicit_gemm_cuda_kernels(const GemmArgs&, bool b_constant, bool large, int64_t columns, int pixels);

}  // namespace ingot::kernels
