// A function with regions: its bindings, sizes, and the functions that its regions call.
#pragma once
#include "ir/regions.h"
#include "plan/plan.h"

namespace ingot::compile {

// Fills in function `index` of the plan. The functions that it calls come after it and must be complete.
void emit_regions(const ir::NamedGraph&, size_t index, plan::Plan&);

}  // namespace ingot::compile
