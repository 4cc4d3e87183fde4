// Times the choices that a plan leaves open: see backend::Backend::time.
#pragma once
#include <span>
#include <vector>

#include "base/timing.h"
#include "runtime/placement.h"

namespace ingot::runtime {

// Times the alternatives of the plan's steps at the usual sizes of their inputs. Runs no function and reads no weight.
std::vector<Timing> time(const plan::Plan&, const Placement&, std::span<const Timing> known, double seconds);

}  // namespace ingot::runtime
