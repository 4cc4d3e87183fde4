// What can be timed of a plan before it is used: what kernels decide at run time, and which of several kernels does a step.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/timing.h"
#include "runtime/placement.h"

namespace ingot::runtime {

// Backend::machine of the device of this name. Error (device) without it.
std::string machine(std::string_view device);

// The least time of one choice.
struct Measured {
  std::string_view problem, implementation, choice;
  double seconds;
};
// Times these steps there at the usual sizes of the plan's inputs, in memory of its own, the most expensive first, until the time is used up. What `known` has is not
// timed again. Gives all that is known of them by then. `tell` hears of each choice that was timed, also of those that were dropped.
std::vector<Timing> time(
    const plan::Plan&, const Placement&, std::span<const plan::TimedStep>, std::span<const Timing> known, double seconds,
    FunctionRef<void(const Measured&)> tell = [](const Measured&) {});

}  // namespace ingot::runtime
