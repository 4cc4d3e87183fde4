// Writes nodes in primitives, by their kernel definitions.
#pragma once
#include <functional>

#include "ir/graph.h"

namespace ingot::compile {

// Expands the nodes for which the backend has no kernel.
void expand_kernel(ir::Graph&, const std::function<bool(const ir::Node&)>& is_lacking);

}  // namespace ingot::compile
