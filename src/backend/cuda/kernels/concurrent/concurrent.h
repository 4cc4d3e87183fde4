// Independent steps of one kernel as one step.
#pragma once
#include "backend/offer.h"

namespace ingot::backend::cuda {

// See Compiler::join.
EmittedStep join_steps(std::span<const Concurrent>);

}  // namespace ingot::backend::cuda
