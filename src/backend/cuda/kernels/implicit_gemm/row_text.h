// A product's left operand, one row, as what each block of its kernel makes in shared memory of a body: printed as a fused body is, without a kernel around it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/kernels/implicit_gemm/run/implicit_gemm_args.h"
#include "backend/offer.h"

namespace ingot::backend::cuda {

struct EmittedRow {
  std::string text;  // struct @Made (status, pointers and numbers of the body's loads), and @Front<Together>, what row_through_columns makes its row by
  std::vector<kernels::ImplicitGemmArgs::Source> sources;
  int64_t length = 0;
};
// nullopt where the body has no such row, reads it element by element, or its sizes are not all known. A pure function.
std::optional<EmittedRow> emit_row(const FusedBody&, const std::vector<StridedLayout>&);

}  // namespace ingot::backend::cuda
