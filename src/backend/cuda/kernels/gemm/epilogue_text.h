// Prints a GEMM's epilogue as CUDA C++, and around it the kernels of its implementations.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/compile/printed_kernels.h"
#include "backend/cuda/kernels/gemm/gemm_compiler.h"

namespace ingot::backend::cuda {

struct GemmText {
  PrintedKernels printed;
  kernels::GemmArgs args;      // its name is that of the kernels of a step alone
  std::vector<ir::Dim> sizes;  // of the body
};
// One text serves all sizes. A pure function.
GemmText print_gemm(const GemmSite&, std::span<const GemmCompiler* const>);

}  // namespace ingot::backend::cuda
