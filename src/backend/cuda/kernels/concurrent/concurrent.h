// Independent steps of one kernel as one step.
#pragma once
#include "backend/offer.h"

namespace ingot::backend::cuda {

// See backend::Concurrent. Each step has a part, of one name.
EmittedStep join_steps(std::span<const Concurrent::Part>);

}  // namespace ingot::backend::cuda
