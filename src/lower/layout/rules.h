// What a node becomes whose operands have an order in memory of their own: a rule for each operation.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "lower/layout/order.h"

namespace ingot::lower {

// What rules know besides the node: the graph before, who reads its values, which values come from weights alone, and what was copied.
struct Layouts {
  explicit Layouts(const Graph& g) : graph(g), users(g.users()), weights(g) {}

  const Graph& graph;
  const std::vector<std::vector<ir::NodeId>> users;
  WeightValues weights;
  std::map<ValueId, ValueId> copies;
};

// A node of `layouts.graph`, with operands in the graph that is built. Nothing: it is copied as it is.
using LayoutRule = std::optional<ValueId> (*)(Layouts& layouts, Graph& to, const Node& node, const std::vector<ValueId>& in);

// Work on elements. Operands in one order are read in it, and neighbours in memory are one axis.
std::optional<ValueId> map_in_order(Layouts&, Graph&, const Node&, const std::vector<ValueId>& in);
// Padding is done in the order of its operand; a convolution's windows see an image whose channels are innermost.
std::optional<ValueId> view_in_order(Layouts&, Graph&, const Node&, const std::vector<ValueId>& in);
// Axes that are one in memory stay one, so that work on the result's rows can share its body.
std::optional<ValueId> reduce_in_order(Layouts&, Graph&, const Node&, const std::vector<ValueId>& in);
// A reshape of a view that merges neighbours in memory, of elements that repeat too.
std::optional<ValueId> reshape_in_order(Layouts&, Graph&, const Node&, const std::vector<ValueId>& in);
// A concatenation, if most of its operands have one order. What a step writes with any strides (a Fourier transform) has none.
std::optional<ValueId> concat_in_order(Layouts&, Graph&, const Node&, const std::vector<ValueId>& in);
// Elements chosen along an axis, as resampling does.
std::optional<ValueId> gather_in_order(Layouts&, Graph&, const Node&, const std::vector<ValueId>& in);

// For the rules of views and gathers: the value as a concatenation of one part, which is stored.
ValueId copied(Graph&, ValueId);

}  // namespace ingot::lower
