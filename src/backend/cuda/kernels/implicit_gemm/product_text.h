// A product of half precision, or of float32 by TF32, and whatever follows it element by element, as a kernel of ingot's own: kernels/matmul/implicit_gemm_cuda with the body printed
// into it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/kernels/implicit_gemm/row_text.h"
#include "backend/cuda/kernels/implicit_gemm/run/implicit_gemm_args.h"
#include "backend/offer.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::backend::cuda {

struct EmittedProduct {
  std::string name;
  std::vector<std::string> kernels;
  std::string text;                  // behind prelude(), the texts of matrix instructions and implicit_gemm_cuda_text()
  std::vector<std::byte> arguments;  // kernels::ImplicitGemmArgs
  std::vector<ir::Dim> sizes;        // of the body
};

// What the kernels of a product are for, besides the body behind it.
struct ProductKernels {
  ir::DType type, b_type;                            // of A, and of B: the same, or int8
  kernels::GemmMap map;                            // of A
  bool b_along_k;                                    // B's neighbours; else along N
  bool b_constant;                                   // see Product
  bool large;                                        // with the kernels for Hopper (sm_90a) alone
  int only = kernels::ImplicitGemmArgs::by_sizes;   // one of their tiles, to be measured
  std::vector<kernels::ImplicitGemmPatch> patches = {};  // see ImplicitGemmArgs
  // Of one row: the matrices that B's columns are in; whether the body sees both halves of them (Gemm::gated); the prologue of A, or null.
  size_t pieces = 1;
  bool gated = false;
  const EmittedRow* row = nullptr;
};

// One text serves all sizes. The body is one of elements (element_text.h) over [M, N], N a multiple of 8. A pure function.
EmittedProduct emit_product_text(const ProductKernels&, const FusedBody&, const std::vector<StridedLayout>&);

}  // namespace ingot::backend::cuda
