// Times the choices of a plan before it is used: the choices that a kernel has at run time, and which of several kernels does a step.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/timing.h"
#include "runtime/placement.h"

namespace ingot::runtime {

// Backend::machine of the device of this name. Error (device) if there is none.
std::string machine(std::string_view device);

// The least time of one choice.
struct Measured {
  std::string_view problem, implementation, choice;
  double seconds;
};
// Times these steps at the usual sizes of the plan's inputs, in memory of its own. The most expensive steps come first; it stops when `seconds` are used up. Choices in
// `known` are not timed again. Returns all timings of these steps known by then. `tell` hears of each choice that was timed, also of those that were dropped.
std::vector<Timing> time(
    const plan::Plan&, const Placement&, std::span<const plan::TimedStep>, std::span<const Timing> known, double seconds,
    FunctionRef<void(const Measured&)> tell = [](const Measured&) {});

}  // namespace ingot::runtime
