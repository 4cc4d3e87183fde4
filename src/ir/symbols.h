// The sizes that a node depends on.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace ingot::ir {

// Symbols in the sizes of its results and in its attributes, in order, some more than once.
std::vector<SymbolId> used_symbols(const Graph&, const Node&);

}  // namespace ingot::ir
