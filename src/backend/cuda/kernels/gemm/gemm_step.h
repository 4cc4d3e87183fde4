// A GEMM's step, with its code as units that are compiled side by side.
#pragma once
#include <memory>
#include <optional>
#include <span>

#include "backend/cuda/kernels/gemm/epilogue_text.h"

namespace ingot::backend::cuda {

// The step of these implementations, with all of their kernels in one unit.
EmittedStep whole_gemm(const GemmSite&, std::span<const GemmCompiler* const>);
// The step of all that may compute the site; the first is the step's kernel.
EmittedStep whole_gemm(const GemmSite&);
// The text of all implementations that may compute a site of open sizes; null: not printed yet. It is the same for the offers of all of them.
using OpenGemm = std::shared_ptr<const GemmText>;
// The step of one implementation. If all sizes are known, it has the kernels that a launch of these sizes and addresses uses, and no others, and the arguments say which tiles there are
// (TilesArgs::tiles); nullopt: the implementation cannot compute them. Else it has all its kernels, and those of the other implementations that may compute the site at some sizes
// so that steps of their offers differ in nothing but the kernel. `timed`: all choices that may be timed keep their kernels.
std::optional<EmittedStep> gemm_step(const GemmCompiler&, const GemmSite&, const Site&, bool timed, OpenGemm&);

}  // namespace ingot::backend::cuda
