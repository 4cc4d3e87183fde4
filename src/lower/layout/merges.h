// Reshapes that merge axes: work on elements is done before them.
#pragma once
#include "lower/layout/order.h"

namespace ingot::lower {

// True for a reshape of a view that merges axes which are not neighbours in the view's operand: windows put together again. It is a copy.
bool merges_strided(const Graph& g, const Node& reshape);
// Pointwise work on merged axes of what pointwise work made is done before they are merged: both become one body.
std::optional<ValueId> map_before_merge(Graph& g, const Node& node, const std::vector<ValueId>& in, const Dims& dims);

}  // namespace ingot::lower
