// The sizes that a node reads, wherever they stand: in its results' types, in numbers and lists of its attributes, in maps and their fill.
#pragma once
#include <vector>

#include "base/function_ref.h"
#include "ir/graph.h"

namespace ingot::ir {

// Every size of the node, constant ones too.
void visit_sizes(const Graph&, const Node&, FunctionRef<void(const Dim&)> visit);
// The symbols in them, in order, some more than once.
std::vector<SymbolId> used_symbols(const Graph&, const Node&);
bool reads_symbol(const Graph&, const Node&);

}  // namespace ingot::ir
