// The sizes that a node reads, wherever they stand (in its results' types, in numbers and lists of its attributes, in maps and their fill), and which size gives a symbol.
#pragma once
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/sizes.h"
#include "ir/graph.h"

namespace ingot::ir {

// Every size of the node, constant ones too.
void visit_sizes(const Graph&, const Node&, FunctionRef<void(const Dim&)> visit);
// The symbols in them, in order, some more than once.
std::vector<SymbolId> used_symbols(const Graph&, const Node&);
bool reads_symbol(const Graph&, const Node&);
// Per symbol: the output that reads it from data (Output::To::size), or none_id.
std::vector<uint32_t> read_symbols(const Graph&);

// The size as a symbol times a number plus a number: an axis of this size gives the symbol (export with 2*d, d+1). Nothing when it is another expression.
std::optional<LinearSize> linear_size(const Dim&);

// left != right, written as first <= second.
std::pair<Dim, Dim> unequal(const Dim& left, const Dim& right, std::span<const Symbol>);

}  // namespace ingot::ir
