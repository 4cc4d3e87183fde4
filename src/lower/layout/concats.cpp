#include "lower/layout/rules.h"

#include <algorithm>
#include <numeric>

namespace ingot::lower {

namespace {

// True if it is, or is a view of, what a step writes with any strides. It has no order to follow: the step writes into the concatenation.
bool follows_any_order(const Graph& g, ValueId v) {
  while (g.producer(v).op == Op::view) v = g.producer(v).in[0];
  const Op op = g.producer(v).op;
  return op == Op::fourier || op == Op::fourier_of_real || op == Op::fourier_to_real;
}

// A concatenation, if most of its parts have one order in memory.
std::optional<ValueId> joined_in_order(Graph& g, const Node& node, const std::vector<ValueId>& in, const Dims& dims) {
  const auto axis = static_cast<size_t>(node.attributes.integer("axis"));
  std::optional<Order> order;
  std::vector<AffineMap> maps;
  for (ValueId v : in) {
    const std::optional<Order> own = follows_any_order(g, v) ? std::nullopt : order_of(g, v);
    if (!own || !is_transposed(*own, g.type(v).dims)) continue;
    if (order && *order != *own) return std::nullopt;
    order = own;
    maps.push_back(maker(g, v).attributes.map("map"));
  }
  if (!order || 2 * maps.size() < in.size()) return std::nullopt;
  const bool all = maps.size() == in.size();
  const std::vector<Order> groups = group_axes(*order, [&](size_t outer, size_t inner) { return all && outer != axis && inner != axis && one_axis(maps, outer, inner, dims); });
  std::vector<Handle> parts;
  for (ValueId v : in) parts.push_back(all ? merged_view(g, v, groups, g.type(v).dims) : ir::permute(Handle(&g, v), axes_of(*order)));
  std::vector<uint32_t> position(dims.size());
  std::iota(position.begin(), position.end(), 0u);
  AffineMap back{dims, {}, std::nullopt};
  size_t joined = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i][0] == axis) joined = i;
    back.axes.push_back(axis_of(groups[i], dims, position));
  }
  return ir::view(ir::concat(parts, static_cast<ir::Axis>(joined)), std::move(back)).id();
}

}  // namespace

std::optional<ValueId> concat_in_order(Layouts& layouts, Graph& to, const Node& node, const std::vector<ValueId>& in) {
  const Dims& dims = layouts.graph.type(node.out[0]).dims;
  return dims.size() < 3 ? std::nullopt : joined_in_order(to, node, in, dims);
}

// As a concatenation of one part, which is stored.
ValueId copied(Graph& g, ValueId v) {
  ir::Attributes axis;
  axis.set("axis", int64_t{0});
  ir::Type type = g.type(v);
  return g.add(Op::concat, {v}, std::move(axis), std::move(type));
}

}  // namespace ingot::lower
