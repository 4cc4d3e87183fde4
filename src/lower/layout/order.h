// The order in memory of a value that is a view, and views in that order.
#pragma once
#include <optional>
#include <vector>

#include "lower/rewrite.h"

namespace ingot::lower {

using ir::AffineMap;
using ir::Axes;

using Order = std::vector<size_t>;  // axes of a value, outermost in memory first

// Where a step along an axis of a view leads in its operand.
struct Step {
  size_t axis = 0;
  int64_t step = 0;
};
// For each axis of the view; nothing if it repeats. nullopt if one axis goes along several.
std::optional<std::vector<std::optional<Step>>> steps_of(const AffineMap& map);
// The order that the axes of a view have in its operand; axes of size 1, and those along which elements repeat, stay with the axis before them. nullopt if an
// axis is used twice, or the first one repeats.
std::optional<Order> order_of(const AffineMap& map);
std::optional<Order> order_of(const Graph& g, ValueId v);
// True if another axis than the last is innermost in memory.
bool is_transposed(const Order& order, const Dims& dims);
// True if the part's axes walk the base's axis `a` once, from its first element to its last.
bool is_all_of(const AffineMap& map, const std::vector<size_t>& part, size_t a, const Dim& size);
Handle permuted_back(const Handle& y, const Order& order);
// Axes that are neighbours in memory and one axis of every operand: the places of an image are the rows of the matmul that computed them.
bool one_axis(const std::vector<AffineMap>& maps, size_t outer, size_t inner, const Dims& dims);
// An axis that holds a group's axes; axis a of a value is its index `position[a]`.
AffineMap::Axis axis_of(const Order& group, const Dims& dims, const std::vector<uint32_t>& position);
Dims sizes_of(const std::vector<Order>& groups, const Dims& dims);
// A view of shape `dims` with an axis for each group.
Handle merged_view(Graph& g, ValueId v, const std::vector<Order>& groups, const Dims& dims);

inline Axes axes_of(const Order& order) { return Axes(order.begin(), order.end()); }

// Axes in memory order; what `merge(outer, inner)` says of neighbours is one group.
template <class Merge>
std::vector<Order> group_axes(const Order& order, Merge merge) {
  std::vector<Order> groups;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && merge(order[i - 1], order[i])) {
      groups.back().push_back(order[i]);
    } else {
      groups.push_back({order[i]});
    }
  }
  return groups;
}

}  // namespace ingot::lower
