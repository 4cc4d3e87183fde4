// Expands one call: by its operator's definition, by the user's kernel, or, of a branch or loop, by expanding its graphs.
#pragma once
#include <string_view>

#include "lower/expand/expansion.h"
#include "ops/operator.h"

namespace ingot::lower {

void expand_call(Expansion&, ir::NodeId);
// The results of a view once more, after its memory was written.
ops::Results remake(Expansion&, const ir::Node&);

// True if torch's random generator gives the results.
bool draws(std::string_view target);

// expand.cpp: all nodes.
ir::Graph expand_graph(Expansion&);

}  // namespace ingot::lower
