// Checks functions with regions before they run.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace ingot::plan {

// Per size of the function: after how many of its regions it is known (0: at entry).
std::vector<uint32_t> known_after(const Function&);
// Error (format) names the first fault: a function that calls itself, a value that is read before it is written or whose type differs from the
// callee's binding, a size that is used before it is read.
void verify_regions(const Plan&, size_t function);
// Error (format) if a function is called from two places or nested too deeply. Each call has memory of its own, so this bounds what a plan can demand.
void verify_calls(const Plan&);

}  // namespace ingot::plan
