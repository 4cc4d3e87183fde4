// Prints one CUDA C++ kernel for a fused body.
#pragma once
#include <string>
#include <vector>

#include "backend/body.h"
#include "backend/cuda/compile/unit_text.h"
#include "backend/cuda/compile/walk.h"
#include "backend/cuda/kernels/fused/run/fused_args.h"

namespace ingot::backend::cuda {

// The kernel is called @N (N = the variant's index): the name comes when all text is known. `sizes`: symbolic sizes so far, grows.
std::string kernel_text(const FusedBody&, const std::vector<StridedLayout>&, const Walk&, const kernels::FusedCudaArgs::Variant&, size_t index, Numbers&,
                        std::vector<ir::Dim>& sizes);

// The same for a body of one row, by all threads of a block, as statements: `p` and the index of a thread are there, and what is stored goes to `to`.
std::string row_text(const FusedBody&, const std::vector<StridedLayout>&, const Walk&, const kernels::FusedCudaArgs::Variant&, const std::string& to, Numbers&,
                     std::vector<ir::Dim>& sizes);

}  // namespace ingot::backend::cuda
