// Functions with regions: what may be relied on when they run.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace ingot::plan {

// Per size of the function: how many of its regions have run when it is known (0: at the beginning).
std::vector<uint32_t> known_after(const Function&);
// Error (format) naming the first thing wrong: a function that calls itself, a value that is read before it is written or is not like the binding that it stands
// for, a size that is used before it is read.
void verify_regions(const Plan&, size_t function);
// Error (format) when a function is run from two places, or too deep inside others: whoever runs a plan makes what it needs for each call.
void verify_calls(const Plan&);

}  // namespace ingot::plan
