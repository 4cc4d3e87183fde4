// Prints a GEMM's epilogue as CUDA C++, and around it the kernels of its implementations.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/kernels/gemm/gemm_compiler.h"

namespace ingot::backend::cuda {

struct GemmText {
  struct Kernel {
    std::string name;
    std::vector<CodeUnit::Library> libraries;
  };
  std::string text;  // comes after prelude() and the libraries
  std::vector<Kernel> kernels;
  kernels::GemmArgs args;
  std::vector<ir::Dim> sizes;  // of the body
};
// One text serves all sizes. A pure function.
GemmText print_gemm(const GemmSite&, std::span<const GemmCompiler* const>);

}  // namespace ingot::backend::cuda
