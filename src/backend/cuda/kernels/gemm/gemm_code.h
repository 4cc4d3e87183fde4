// The code of an implicit GEMM's step as units that are compiled side by side.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "backend/offer.h"

namespace ingot::backend::cuda {

// The libraries of all kernels of a product.
std::vector<CodeUnit::Library> gemm_libraries(ir::DType, bool b_along_k);
// Splits the one unit of a GEMM's step: each kernel becomes a unit of its own, with the libraries that it uses. If all sizes are known, kernels that no launch of these sizes and addresses uses
// are left out, and the arguments say which tiles there are (GemmArgs::tiles). `timed`: all choices that may be timed keep their kernels.
EmittedStep split_code(EmittedStep, const Site&, bool timed);
// A step of split_code() with these large kernels in place of those that it launches alone. It has EmittedStep::whole.
EmittedStep with_large_kernels(const EmittedStep&, const std::set<std::string>&);

}  // namespace ingot::backend::cuda
