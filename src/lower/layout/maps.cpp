#include "lower/layout/rules.h"

#include <algorithm>
#include <numeric>

#include "lower/layout/merges.h"

namespace ingot::lower {

namespace {

// A view of all of a result that lacks axes of size 1 in front, with them.
ValueId with_all_axes(Graph& g, ValueId v, const Dims& dims) {
  const Dims own = g.type(v).dims;
  const Node& made = maker(g, v);
  if (own.size() >= dims.size() || made.op != Op::view || made.attributes.map("map").fill) return v;
  const auto lead = static_cast<int64_t>(dims.size() - own.size());
  const bool ones = std::all_of(dims.begin(), dims.begin() + lead, [](const Dim& d) { return d == Dim(1); });
  if (!ones || !std::equal(own.begin(), own.end(), dims.begin() + lead)) return v;
  AffineMap map = made.attributes.map("map");
  map.dims = dims;
  for (AffineMap::Axis& axis : map.axes) {
    for (AffineMap::Term& t : axis.terms) t.axis += static_cast<uint32_t>(lead);
  }
  return ir::view(Handle(&g, made.in[0]), std::move(map)).id();
}

std::optional<ValueId> all_in_order(Graph& g, WeightValues& weights, const Node& node, std::vector<ValueId> in, const Dims& dims) {
  for (ValueId& v : in) v = with_all_axes(g, v, dims);
  std::optional<Order> order;
  std::vector<AffineMap> maps;  // of the operands that are views of all of the result
  auto whole = [&](ValueId v) { return g.type(v).dims == dims && !weights.contain(g, v) && !number_of(g, v); };
  for (ValueId v : in) {
    if (!whole(v)) continue;
    const std::optional<Order> mine = order_of(g, v);
    if (!mine || (order && *order != *mine)) return std::nullopt;
    order = mine;
    maps.push_back(maker(g, v).attributes.map("map"));
  }
  if (!order || !is_transposed(*order, dims)) return std::nullopt;
  std::vector<Handle> others;  // with an axis for each of the result's, in memory order
  for (ValueId v : in) {
    Handle x(&g, v);
    if (whole(v)) continue;
    while (static_cast<size_t>(x.rank()) < dims.size()) x = ir::unsqueeze(x, 0);
    others.push_back(ir::permute(x, axes_of(*order)));
  }
  // The axes of the operation: each is one or several of the result's.
  std::vector<size_t> rank(order->size());
  for (size_t i = 0; i < order->size(); ++i) rank[(*order)[i]] = i;
  const std::vector<Order> groups = group_axes(*order, [&](size_t outer, size_t inner) {
    auto repeats = [&](const Handle& x) { return x.dims()[rank[inner]] == Dim(1) && x.dims()[rank[outer]] == Dim(1); };
    return one_axis(maps, outer, inner, dims) && std::all_of(others.begin(), others.end(), repeats);
  });
  std::vector<uint32_t> position(dims.size());
  std::iota(position.begin(), position.end(), 0u);
  AffineMap back{dims, {}, std::nullopt};
  for (const Order& group : groups) back.axes.push_back(axis_of(group, dims, position));
  std::vector<ValueId> operands;
  size_t next_other = 0;
  for (ValueId v : in) {
    if (whole(v)) {
      operands.push_back(merged_view(g, v, groups, dims).id());
      continue;
    }
    const Handle& x = others[next_other++];
    Dims merged;
    for (size_t i = 0, at = 0; i < groups.size(); at += groups[i++].size()) merged.push_back(x.dims()[at]);
    operands.push_back(merged.size() == x.dims().size() ? x.id() : ir::reshape(x, merged).id());
  }
  std::optional<ValueId> y = map_before_merge(g, node, operands, sizes_of(groups, dims));
  if (!y) {
    ir::Type type = infer(g, node.op, operands, node.attributes)[0];
    y = g.add(node.op, operands, node.attributes, std::move(type));
  }
  return ir::view(Handle(&g, *y), std::move(back)).id();
}

// True if the value is the end of a product alone, pointwise work after it with one reader: its kernel does it, in its own axes.
bool ends_product(const Graph& g, const std::vector<std::vector<ir::NodeId>>& users, ValueId v) {
  for (;;) {
    const Node& node = maker(g, v);
    if (users[v].size() != 1) return false;
    if (node.op == Op::matmul) return true;
    if (!is_map(node.op)) return false;
    const auto whole = std::find_if(node.in.begin(), node.in.end(), [&](ValueId in) { return g.type(in).dims == g.type(v).dims && !is_leaf(maker(g, in).op); });
    if (whole == node.in.end()) return false;
    v = *whole;
  }
}

}  // namespace

std::optional<ValueId> map_in_order(Layouts& layouts, Graph& to, const Node& node, const std::vector<ValueId>& in) {
  const Dims& dims = layouts.graph.type(node.out[0]).dims;
  const std::optional<ValueId> done = all_in_order(to, layouts.weights, node, in, dims);
  if (done || std::any_of(node.in.begin(), node.in.end(), [&](ValueId v) { return ends_product(layouts.graph, layouts.users, v); })) return done;
  return map_before_merge(to, node, in, dims);
}

}  // namespace ingot::lower
