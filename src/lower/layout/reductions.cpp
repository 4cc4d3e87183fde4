#include "lower/layout/rules.h"

#include <algorithm>
#include <numeric>

namespace ingot::lower {

namespace {

template <class Reduced>
Axes reduced_groups(const std::vector<Order>& groups, Reduced is_reduced) {
  Axes out;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (is_reduced(groups[i][0])) out.push_back(static_cast<ir::Axis>(i));
  }
  return out;
}

// A reduction, whose axes move. Axes that are one in memory stay one, so that work on the result's rows can share its body.
std::optional<ValueId> reduction_in_order(Graph& g, const Node& node, ValueId x) {
  const std::optional<Order> order = order_of(g, x);
  const std::string& kind = node.attributes.string("kind");
  const Dims dims = g.type(x).dims;
  if (!order || !is_transposed(*order, dims) || kind == "argmax" || kind == "argmin") return std::nullopt;  // those count places
  const std::vector<int64_t> axes = node.attributes.integers("axes");
  if (axes.empty()) return std::nullopt;
  const bool keep = node.attributes.boolean("keep");
  auto is_reduced = [&](size_t axis) { return std::count(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != 0; };
  const AffineMap map = maker(g, x).attributes.map("map");
  const std::vector<Order> groups = group_axes(*order, [&](size_t outer, size_t inner) { return is_reduced(outer) == is_reduced(inner) && one_axis({map}, outer, inner, dims); });
  const Handle y = ir::reduce(kind.c_str(), merged_view(g, x, groups, dims), reduced_groups(groups, is_reduced), ir::drop);
  AffineMap back;
  std::vector<uint32_t> position(dims.size());  // of an axis in the result
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    position[axis] = static_cast<uint32_t>(back.dims.size());
    if (!is_reduced(axis)) back.dims.push_back(dims[axis]);
    if (is_reduced(axis) && keep) back.dims.push_back(1);
  }
  for (const Order& group : groups) {
    if (!is_reduced(group[0])) back.axes.push_back(axis_of(group, dims, position));
  }
  return ir::view(y, std::move(back)).id();
}

}  // namespace

std::optional<ValueId> reduce_in_order(Layouts&, Graph& to, const Node& node, const std::vector<ValueId>& in) {
  return to.type(in[0]).dims.size() < 3 ? std::nullopt : reduction_in_order(to, node, in[0]);
}

}  // namespace ingot::lower
