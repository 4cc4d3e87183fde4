// A function with regions in a plan: its bindings and sizes, and what its regions run.
#pragma once
#include "ir/regions.h"
#include "plan/plan.h"

namespace ingot::compile {

// Fills in function `index` of the plan; the functions that it calls, which are behind it, are there.
void emit_regions(const ir::NamedGraph&, size_t index, plan::Plan&);

}  // namespace ingot::compile
