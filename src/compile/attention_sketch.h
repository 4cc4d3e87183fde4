// The question to a backend about a node of attention, before anything has a layout.
#pragma once
#include "backend/site.h"
#include "ir/graph.h"

namespace ingot::compile {

// With the number of keys that the node has; `more` are further operands, without layouts.
backend::Site attention_sketch(const ir::Graph&, const ir::Node&, std::vector<std::pair<kernels::Role, ir::Type>> more);

}  // namespace ingot::compile
