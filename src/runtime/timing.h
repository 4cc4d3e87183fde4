// What can be timed before a plan is used: see backend::Backend::time.
#pragma once
#include <span>
#include <vector>

#include "base/timing.h"
#include "runtime/placement.h"

namespace ingot::runtime {

// Times what the steps of the plan's functions can do in several ways there, at the usual sizes of their inputs; nothing is run, and no weight is read.
std::vector<Timing> time(const plan::Plan&, const Placement&, std::span<const Timing> known, double seconds);

}  // namespace ingot::runtime
