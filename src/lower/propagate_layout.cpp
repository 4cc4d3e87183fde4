// Pointwise operations go through their operands in the order that these have in memory. A convolution's result is a matmul's, with a row for each place and a
// column for each channel, viewed as [N, C, H, W]; bias, normalisation, activation, residual, padding and sums after it work on [N, H, W, C]. Only a reader that
// needs another order pays for it.
#include <algorithm>
#include <numeric>

#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

using ir::AffineMap;
using ir::Axes;

using Order = std::vector<size_t>;  // axes of a value, outermost in memory first

// Where a step along an axis of a view leads in its operand.
struct Step {
  size_t axis = 0;
  int64_t step = 0;
};
// For each axis of the view; nothing if it repeats. nullopt if one axis goes along several.
std::optional<std::vector<std::optional<Step>>> steps_of(const AffineMap& map) {
  std::vector<std::optional<Step>> steps(map.dims.size());
  for (size_t a = 0; a < map.axes.size(); ++a) {
    for (const AffineMap::Term& t : map.axes[a].terms) {
      if (steps[t.axis]) return std::nullopt;
      steps[t.axis] = Step{a, t.coefficient};
    }
  }
  return steps;
}

// The order that the axes of a view have in its operand; axes of size 1 stay with the axis before them. nullopt if an axis is repeated or used twice.
std::optional<Order> order_of(const AffineMap& map) {
  auto steps = steps_of(map);
  if (!steps) return std::nullopt;
  for (size_t d = 0; d < steps->size(); ++d) {
    auto& step = (*steps)[d];
    if (step) continue;
    if (!(map.dims[d] == Dim(1))) return std::nullopt;
    step = d > 0 ? *(*steps)[d - 1] : Step{0, INT64_MAX};
  }
  Order order(map.dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Step &x = *(*steps)[a], &y = *(*steps)[b];
    return x.axis != y.axis ? x.axis < y.axis : std::abs(x.step) > std::abs(y.step);
  });
  return order;
}

std::optional<Order> order_of(const Graph& g, ValueId v) {
  const Node& n = maker(g, v);
  if (n.op != Op::view || n.attributes.map("map").fill) return std::nullopt;
  return order_of(n.attributes.map("map"));
}

// True if another axis than the last is innermost in memory.
bool turns(const Order& order, const Dims& dims) {
  size_t last = dims.size();
  while (last > 0 && dims[last - 1] == Dim(1)) --last;
  size_t inner = order.size();
  while (inner > 0 && dims[order[inner - 1]] == Dim(1)) --inner;
  return last > 0 && inner > 0 && order[inner - 1] != last - 1;
}

Axes axes_of(const Order& order) { return Axes(order.begin(), order.end()); }

Handle put_back(const Handle& y, const Order& order) {
  Axes inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<ir::Axis>(i);
  return ir::permute(y, inverse);
}

// Axes that are neighbours in memory and one axis of every operand: the places of an image are the rows of the matmul that computed them.
bool one_axis(const std::vector<AffineMap>& maps, size_t outer, size_t inner, const Dims& dims) {
  auto size = dims[inner].constant();
  return size && *size > 1 && dims[outer].constant().value_or(0) > 1 && std::all_of(maps.begin(), maps.end(), [&](const AffineMap& map) {
           const auto steps = *steps_of(map);  // which has an order
           const auto &a = steps[outer], &b = steps[inner];
           return a && b && a->axis == b->axis && b->step > 0 && a->step == b->step * *size;
         });
}

std::optional<ValueId> map_in_order(Graph& g, WeightValues& weights, const Node& node, const std::vector<ValueId>& in, const Dims& dims) {
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
  if (!order || !turns(*order, dims)) return std::nullopt;
  std::vector<Handle> others;  // with an axis for each of the result's, in memory order
  for (ValueId v : in) {
    Handle x(&g, v);
    if (whole(v)) continue;
    while (static_cast<size_t>(x.rank()) < dims.size()) x = ir::unsqueeze(x, 0);
    others.push_back(ir::permute(x, axes_of(*order)));
  }
  // The axes of the operation: each is one or several of the result's.
  std::vector<Order> groups;
  for (size_t i = 0; i < order->size(); ++i) {
    auto repeats = [&](const Handle& x) { return x.dims()[i] == Dim(1) && x.dims()[i - 1] == Dim(1); };
    if (i > 0 && one_axis(maps, (*order)[i - 1], (*order)[i], dims) && std::all_of(others.begin(), others.end(), repeats)) {
      groups.back().push_back((*order)[i]);
    } else {
      groups.push_back({(*order)[i]});
    }
  }
  AffineMap back;
  back.dims = dims;
  Dims work;
  for (const Order& group : groups) {
    AffineMap::Axis axis;
    Dim size = 1;
    for (size_t k = group.size(); k-- > 0; size *= dims[group[k]]) axis.terms.push_back({static_cast<uint32_t>(group[k]), *size.constant()});
    std::sort(axis.terms.begin(), axis.terms.end(), [](const auto& a, const auto& b) { return a.axis < b.axis; });
    back.axes.push_back(std::move(axis));
    work.push_back(size);
  }
  std::vector<ValueId> operands;
  size_t next_map = 0, next_other = 0;
  for (ValueId v : in) {
    if (!whole(v)) {
      const Handle& x = others[next_other++];
      Dims merged;
      for (size_t i = 0, at = 0; i < groups.size(); at += groups[i++].size()) merged.push_back(x.dims()[at]);
      operands.push_back(merged.size() == x.dims().size() ? x.id() : ir::reshape(x, merged).id());
      continue;
    }
    AffineMap map = maps[next_map++];
    for (AffineMap::Axis& axis : map.axes) {
      std::vector<AffineMap::Term> terms;
      for (uint32_t i = 0; i < groups.size(); ++i) {
        for (const AffineMap::Term& t : axis.terms) {
          if (t.axis == groups[i].back()) terms.push_back({i, t.coefficient});
        }
      }
      axis.terms = std::move(terms);
    }
    map.dims = work;
    operands.push_back(ir::view(Handle(&g, maker(g, v).in[0]), std::move(map)).id());
  }
  ir::Type type = infer(g, node.op, operands, node.attributes)[0];
  return ir::view(Handle(&g, g.add(node.op, operands, node.attributes, std::move(type))), std::move(back)).id();
}

// Padding: a view with a fill that permutes axes itself, or has its operand's axes.
std::optional<ValueId> pad_in_order(Graph& g, const AffineMap& map, ValueId x) {
  if (const std::optional<Order> own = order_of(map); own && turns(*own, map.dims)) {
    AffineMap turned;
    turned.fill = map.fill;
    std::vector<uint32_t> position(own->size());
    for (uint32_t i = 0; i < own->size(); ++i) {
      position[(*own)[i]] = i;
      turned.dims.push_back(map.dims[(*own)[i]]);
    }
    turned.axes = map.axes;
    for (AffineMap::Axis& axis : turned.axes) {
      for (AffineMap::Term& t : axis.terms) t.axis = position[t.axis];
      std::sort(axis.terms.begin(), axis.terms.end(), [](const auto& a, const auto& b) { return a.axis < b.axis; });
    }
    return put_back(ir::view(Handle(&g, x), std::move(turned)), *own).id();
  }
  const std::optional<Order> order = order_of(g, x);
  const Dims dims = g.type(x).dims;
  if (!order || !turns(*order, dims) || map.dims.size() != dims.size()) return std::nullopt;
  AffineMap turned;
  turned.fill = map.fill;
  for (size_t i : *order) {
    const AffineMap::Axis& axis = map.axes[i];
    if (axis.terms.size() != 1 || axis.terms[0].axis != i) return std::nullopt;
    turned.axes.push_back({axis.offset, {{static_cast<uint32_t>(turned.dims.size()), axis.terms[0].coefficient}}});
    turned.dims.push_back(map.dims[i]);
  }
  return put_back(ir::view(ir::permute(Handle(&g, x), axes_of(*order)), std::move(turned)), *order).id();
}

// A reduction, whose axes move.
std::optional<ValueId> reduction_in_order(Graph& g, const Node& node, ValueId x) {
  const std::optional<Order> order = order_of(g, x);
  const std::string& kind = node.attributes.string("kind");
  if (!order || !turns(*order, g.type(x).dims) || kind == "argmax" || kind == "argmin") return std::nullopt;  // those count places
  const std::vector<int64_t> axes = node.attributes.integers("axes");
  if (axes.empty()) return std::nullopt;
  Axes turned;
  Order left;  // of the result's axes, in memory order
  for (size_t i = 0; i < order->size(); ++i) {
    const size_t axis = (*order)[i];
    const bool reduced = std::count(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != 0;
    if (reduced) turned.push_back(static_cast<ir::Axis>(i));
    if (reduced && !node.attributes.boolean("keep")) continue;
    left.push_back(axis);
  }
  Order ranks = left;  // the same counted among themselves
  for (size_t& axis : ranks) axis = static_cast<size_t>(std::count_if(left.begin(), left.end(), [&](size_t other) { return other < axis; }));
  const Handle y = ir::reduce(kind.c_str(), ir::permute(Handle(&g, x), axes_of(*order)), turned, node.attributes.boolean("keep") ? ir::keep : ir::drop);
  return put_back(y, ranks).id();
}

}  // namespace

void propagate_layout(Graph& g) {
  WeightValues weights(g);
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    const Dims& dims = g.type(node.out[0]).dims;
    if (node.op == Op::reduce && g.type(node.in[0]).dims.size() >= 3) return reduction_in_order(to, node, in[0]);
    if (node.op == Op::view && !node.attributes.map("map").fill && order_of(to, in[0])) {  // windows on what was put back: one view shows the order
      return ir::view(Handle(&to, maker(to, in[0]).in[0]), compose(node.attributes.map("map"), maker(to, in[0]).attributes.map("map"))).id();
    }
    if (dims.size() < 3) return std::nullopt;
    if (is_map(node.op)) return map_in_order(to, weights, node, in, dims);
    if (node.op == Op::view && node.attributes.map("map").fill) return pad_in_order(to, node.attributes.map("map"), in[0]);
    return std::nullopt;
  });
}

}  // namespace ingot::lower
