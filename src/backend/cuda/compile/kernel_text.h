// Prints one CUDA C++ kernel of a fused body.
#pragma once
#include <string>
#include <vector>

#include "backend/body.h"
#include "backend/cuda/compile/unit_text.h"
#include "backend/cuda/compile/walk.h"
#include "backend/cuda/kernels/fused/run/fused_args.h"

namespace ingot::backend::cuda {

// PrintedKernels::Kernel::body of one variant. Appends to `sizes`, the symbolic sizes so far.
std::string kernel_text(const FusedBody&, const std::vector<StridedLayout>&, const Walk&, const kernels::FusedCudaArgs::Variant&, Numbers&, std::vector<ir::Dim>& sizes);

// Prints a body of one row as statements for all threads of a block: `p` and the thread's index are in scope, and the result is stored to `to`.
std::string row_text(const FusedBody&, const std::vector<StridedLayout>&, const Walk&, const kernels::FusedCudaArgs::Variant&, const std::string& to, Numbers&,
                     std::vector<ir::Dim>& sizes);

}  // namespace ingot::backend::cuda
