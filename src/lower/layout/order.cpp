#include "lower/layout/order.h"

#include <algorithm>
#include <numeric>

namespace ingot::lower {

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

std::optional<Order> order_of(const AffineMap& map) {
  auto steps = steps_of(map);
  if (!steps) return std::nullopt;
  for (size_t d = 0; d < steps->size(); ++d) {
    auto& step = (*steps)[d];
    if (step) continue;
    if (!(map.dims[d] == Dim(1)) && d == 0) return std::nullopt;
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

bool is_transposed(const Order& order, const Dims& dims) {
  size_t last = dims.size();
  while (last > 0 && dims[last - 1] == Dim(1)) --last;
  size_t inner = order.size();
  while (inner > 0 && dims[order[inner - 1]] == Dim(1)) --inner;
  return last > 0 && inner > 0 && order[inner - 1] != last - 1;
}

bool is_all_of(const AffineMap& map, const std::vector<size_t>& part, size_t a, const Dim& size) {
  Dim n = 1;
  for (const AffineMap::Term& t : map.axes[a].terms) {
    if (map.dims[t.axis] == Dim(1)) continue;
    if (std::count(part.begin(), part.end(), size_t{t.axis}) == 0) return false;
    n *= map.dims[t.axis];
  }
  return n == size && map.axes[a].offset == Dim(0);
}

Handle permuted_back(const Handle& y, const Order& order) {
  Axes inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<ir::Axis>(i);
  return ir::permute(y, inverse);
}

bool one_axis(const std::vector<AffineMap>& maps, size_t outer, size_t inner, const Dims& dims) {
  auto size = dims[inner].constant();
  return size && *size > 1 && dims[outer].constant().value_or(0) > 1 && std::all_of(maps.begin(), maps.end(), [&](const AffineMap& map) {
           const auto steps = *steps_of(map);  // which has an order
           const auto &a = steps[outer], &b = steps[inner];
           return a && b && a->axis == b->axis && b->step > 0 && a->step == b->step * *size;
         });
}

AffineMap::Axis axis_of(const Order& group, const Dims& dims, const std::vector<uint32_t>& position) {
  AffineMap::Axis axis;
  Dim size = 1;
  for (size_t k = group.size(); k-- > 0; size *= dims[group[k]]) axis.terms.push_back({position[group[k]], *size.constant()});
  std::sort(axis.terms.begin(), axis.terms.end(), [](const auto& a, const auto& b) { return a.axis < b.axis; });
  return axis;
}

Dims sizes_of(const std::vector<Order>& groups, const Dims& dims) {
  Dims sizes;
  for (const Order& group : groups) {
    Dim size = 1;
    for (size_t axis : group) size *= dims[axis];
    sizes.push_back(size);
  }
  return sizes;
}

Handle merged_view(Graph& g, ValueId v, const std::vector<Order>& groups, const Dims& dims) {
  AffineMap map = maker(g, v).attributes.map("map");
  for (AffineMap::Axis& axis : map.axes) {
    std::vector<AffineMap::Term> terms;
    for (uint32_t i = 0; i < groups.size(); ++i) {
      for (const AffineMap::Term& t : axis.terms) {
        if (t.axis == groups[i].back()) terms.push_back({i, t.coefficient});
      }
    }
    axis.terms = std::move(terms);
  }
  map.dims = sizes_of(groups, dims);
  return ir::view(Handle(&g, maker(g, v).in[0]), std::move(map));
}

}  // namespace ingot::lower
