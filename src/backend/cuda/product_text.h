// A product of half precision and whatever follows it element by element, as a kernel of ingot's own: kernels/matmul/matmul_map_cuda with the body printed
// into it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/row_text.h"
#include "backend/emitter.h"
#include "kernels/matmul/matmul_args.h"
#include "kernels/matmul/matmul_map_cuda_args.h"

namespace ingot::backend::cuda {

struct EmittedProduct {
  std::string name;
  std::vector<std::string> kernels;
  std::string text;                  // behind prelude(), the texts of matrix instructions and matmul_map_cuda_text()
  std::vector<std::byte> arguments;  // kernels::MatmulMapCudaArgs
  std::vector<ir::Dim> sizes;        // of the body
};

// One text serves all sizes. `large`: with the kernels for Hopper (sm_90a) alone; `only`: one of their tiles, to be measured. `patches`: see MatmulMapCudaArgs.
// `b_constant`, `halves`: see Product. `rights`: matrices that B's columns are in. `row`: what makes A, or null. The body is one of elements (element_text.h) over [M, N], N a multiple of 8; B's neighbours
// are along N or along K. A pure function.
EmittedProduct emit_product_text(ir::DType, const kernels::MatmulMap&, bool b_along_k, bool b_constant, bool large, const std::vector<kernels::MatmulPatchCuda>& patches,
                                 size_t rights, bool halves, const EmittedRow* row, const FusedBody&, const std::vector<Layout>&, int only = kernels::MatmulMapCudaArgs::by_sizes);

}  // namespace ingot::backend::cuda
