#include "lower/layout/rules.h"
#include "lower/tuning.h"

#include <algorithm>

namespace ingot::lower {

namespace {

// Padding: a view with a fill that permutes axes itself, or has its operand's axes.
std::optional<ValueId> pad_in_order(Graph& g, const AffineMap& map, ValueId x) {
  if (const std::optional<Order> own = order_of(map); own && is_transposed(*own, map.dims)) {
    AffineMap permuted;
    permuted.fill = map.fill;
    std::vector<uint32_t> position(own->size());
    for (uint32_t i = 0; i < own->size(); ++i) {
      position[(*own)[i]] = i;
      permuted.dims.push_back(map.dims[(*own)[i]]);
    }
    permuted.axes = map.axes;
    for (AffineMap::Axis& axis : permuted.axes) {
      for (AffineMap::Term& t : axis.terms) t.axis = position[t.axis];
      std::sort(axis.terms.begin(), axis.terms.end(), [](const auto& a, const auto& b) { return a.axis < b.axis; });
    }
    return permuted_back(ir::view(Handle(&g, x), std::move(permuted)), *own).id();
  }
  const std::optional<Order> order = order_of(g, x);
  const Dims dims = g.type(x).dims;
  if (!order || !is_transposed(*order, dims) || map.dims.size() != dims.size()) return std::nullopt;
  AffineMap permuted;
  permuted.fill = map.fill;
  for (size_t i : *order) {
    const AffineMap::Axis& axis = map.axes[i];
    if (axis.terms.size() != 1 || axis.terms[0].axis != i) return std::nullopt;
    permuted.axes.push_back({axis.offset, {{static_cast<uint32_t>(permuted.dims.size()), axis.terms[0].coefficient}}});
    permuted.dims.push_back(map.dims[i]);
  }
  return permuted_back(ir::view(ir::permute(Handle(&g, x), axes_of(*order)), std::move(permuted)), *order).id();
}

// What a convolution's windows move over, with its channels innermost: kernels read neighbouring channels, which see the same windows. An image with
// another order, which comes from outside, is copied once, as a concatenation of one part. Images of few channels stay as they are.
// `first`: the first axis after the channels.
std::optional<ValueId> with_channels_last(Graph& g, size_t first, size_t rank, ValueId x, std::map<ValueId, ValueId>& copies) {
  const Dims dims = g.type(x).dims;
  Dim channels = 1;
  for (size_t a = 1; a < first; ++a) channels *= dims[a];
  if (channels.constant().value_or(tuning::min_channels_last) < tuning::min_channels_last) return std::nullopt;
  if (const auto order = order_of(g, x); order && is_transposed(*order, dims)) return std::nullopt;
  const Node made = maker(g, x);
  const bool pads = made.op == Op::view && made.attributes.map("map").fill;
  const ValueId base = pads ? made.in[0] : x;
  if (pads && (made.attributes.map("map").axes.size() != rank || g.type(base).dims.size() != rank)) return std::nullopt;
  if (const auto order = order_of(g, base); order && is_transposed(*order, g.type(base).dims)) return std::nullopt;
  auto [copy, is_new] = copies.try_emplace(base, base);
  if (is_new) {
    Order order{0};
    for (size_t a = first; a < rank; ++a) order.push_back(a);
    for (size_t a = 1; a < first; ++a) order.push_back(a);
    copy->second = permuted_back(Handle(&g, copied(g, ir::permute(Handle(&g, base), axes_of(order)).id())), order).id();
  }
  return pads ? pad_in_order(g, made.attributes.map("map"), copy->second) : copy->second;
}

// Of a convolution's windows on [N, groups, C, spatial...], or on [N, C, spatial...] where a weight multiplies each channel: the first spatial axis.
std::optional<size_t> first_spatial(const Graph& g, const std::vector<std::vector<ir::NodeId>>& users, const Node& windows) {
  const AffineMap& map = windows.attributes.map("map");
  const std::vector<ir::NodeId>& readers = users[windows.out[0]];
  const size_t first = readers.size() == 1 && g.nodes[readers[0]].op == Op::mul ? 2 : 3;
  bool moves = false;
  for (size_t a = 0; a < map.axes.size(); ++a) {
    const bool here = has_windows(map.axes[a], map.dims);
    if (here && a < first) return std::nullopt;
    moves = moves || here;
  }
  return moves ? std::optional(first) : std::nullopt;
}

}  // namespace

std::optional<ValueId> view_in_order(Layouts& layouts, Graph& to, const Node& node, const std::vector<ValueId>& in) {
  const AffineMap& map = node.attributes.map("map");
  if (map.fill) return layouts.graph.type(node.out[0]).dims.size() < 3 ? std::nullopt : pad_in_order(to, map, in[0]);
  ValueId x = in[0];
  if (const auto first = first_spatial(layouts.graph, layouts.users, node); first && !layouts.weights.contain(to, x)) {
    x = with_channels_last(to, *first, map.axes.size(), x, layouts.copies).value_or(x);
  }
  if (order_of(to, x)) return ir::view(Handle(&to, maker(to, x).in[0]), compose(map, maker(to, x).attributes.map("map"))).id();  // one view shows the order
  return std::nullopt;
}

}  // namespace ingot::lower
