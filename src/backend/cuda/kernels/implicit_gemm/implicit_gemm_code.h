// The code of an implicit GEMM's step as units that are compiled side by side.
#pragma once
#include <vector>

#include "backend/offer.h"

namespace ingot::backend::cuda {

// Splits the step's one unit: each large kernel becomes a unit of its own. If all sizes are known, kernels that no launch of these sizes uses are left out, and the
// arguments say which tiles there are (ImplicitGemmArgs::tiles). `operands`: of the body. `timed`: all choices that may be timed keep their kernels.
EmittedStep split_code(EmittedStep step, const Gemm&, const std::vector<StridedLayout>& operands, bool timed);

}  // namespace ingot::backend::cuda
