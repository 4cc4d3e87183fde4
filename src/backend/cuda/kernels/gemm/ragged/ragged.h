// What implementations of products of experts share at compile time.
#pragma once
#include "backend/cuda/kernels/gemm/gemm_compiler.h"

namespace ingot::backend::cuda {

// How a block finds its expert; after copied_tiles_text().
std::string_view ragged_text();
// The kernel for operands at any address.
void add_ragged_for_any_address(PrintedGemm&, const kernels::GemmArgs&);

}  // namespace ingot::backend::cuda
