// The prologue of a GEMM with one row, as CUDA C++: each block computes A in shared memory. It is printed like a fused body, without a kernel around it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "backend/site.h"

namespace ingot::backend::cuda {

struct EmittedPrologue {
  std::string text;  // struct @Made (status, pointers and numbers of the body's loads), and @Front<Together>, with which gemv_along_k computes the row
  std::vector<kernels::GemmArgs::Source> sources;
  int64_t length = 0;
};
// nullopt if the body computes more than one row, loads single elements, or has unknown sizes. A pure function.
std::optional<EmittedPrologue> emit_prologue(const FusedBody&, const std::vector<StridedLayout>&);

}  // namespace ingot::backend::cuda
