// Independent steps of one kernel as one step.
#pragma once
#include "backend/offer.h"

namespace ingot::backend::cuda {

// Steps with equal names here can be one step; empty: not this one.
std::string name_as_part(const EmittedStep&);
// See backend::Concurrent.
EmittedStep join_steps(std::span<const Concurrent::Part>);

}  // namespace ingot::backend::cuda
