// Prints a GEMM of half precision, or of float32 by TF32, with its epilogue: the kernels of implicit_gemm.h around the epilogue's body.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/kernels/gemm/gemv/prologue_text.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "backend/offer.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::backend::cuda {

struct EmittedGemm {
  std::string name;
  std::vector<std::string> kernels;
  std::string text;  // comes after prelude(), the texts of matrix instructions and gemm_cuda_text()
  std::vector<std::byte> arguments;  // kernels::GemmArgs
  std::vector<ir::Dim> sizes;  // of the body
};

// The GEMM that the kernels compute, without the epilogue.
struct GemmKernels {
  ir::DType type, b_type;  // of A, and of B: the same, or int8
  kernels::GemmMap map;  // of A
  bool b_along_k;  // B is contiguous along K; else along N
  bool b_constant;  // see backend::Gemm::constant
  bool large;  // only with the kernels for Hopper (sm_90a)
  uint16_t tiles = kernels::GemmArgs::all_tiles;  // see GemmArgs
  std::vector<kernels::Im2col2d> patches = {};  // see GemmArgs
  std::vector<kernels::Im2col3d> bricks = {};
  // For one or a few rows: the matrices that hold B's columns; whether the epilogue is gated (Gemm::gated); the prologue of A, or null.
  size_t pieces = 1;
  bool gated = false;
  const EmittedPrologue* row = nullptr;
  bool few_rows = false;  // with the kernel for few rows
};

// One text serves all sizes. The body has single elements (element_text.h) over [M, N], with N a multiple of 8. A pure function.
EmittedGemm emit_gemm_text(const GemmKernels&, const FusedBody&, const std::vector<StridedLayout>&);

}  // namespace ingot::backend::cuda
