// Pointwise operations go through their operands in the order that these have in memory. A convolution's result is a matmul's, with a row for each place and a
// column for each channel, viewed as [N, C, H, W]; bias, normalisation, activation, residual, padding, concatenation, resampling and sums after it work on
// [N, H, W, C]. Only a reader that needs another order pays for it.
#include <algorithm>
#include <map>
#include <numeric>

#include "ir/reshape_groups.h"
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

// The order that the axes of a view have in its operand; axes of size 1, and those along which elements repeat, stay with the axis before them. nullopt if an
// axis is used twice, or the first one repeats.
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

// True if another axis than the last is innermost in memory.
bool turns(const Order& order, const Dims& dims) {
  size_t last = dims.size();
  while (last > 0 && dims[last - 1] == Dim(1)) --last;
  size_t inner = order.size();
  while (inner > 0 && dims[order[inner - 1]] == Dim(1)) --inner;
  return last > 0 && inner > 0 && order[inner - 1] != last - 1;
}

// True if the part's axes walk the base's axis `a` once, from its first element to its last.
bool is_all_of(const AffineMap& map, const std::vector<size_t>& part, size_t a, const Dim& size) {
  Dim n = 1;
  for (const AffineMap::Term& t : map.axes[a].terms) {
    if (map.dims[t.axis] == Dim(1)) continue;
    if (std::count(part.begin(), part.end(), size_t{t.axis}) == 0) return false;
    n *= map.dims[t.axis];
  }
  return n == size && map.axes[a].offset == Dim(0);
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

// True if pointwise work computes the value with the result of a reduction, as a normalisation does.
bool has_reduction(const Graph& g, ValueId v) {
  constexpr size_t most = 64;  // values that are looked at
  std::vector<ValueId> seen{v};
  for (size_t k = 0; k < seen.size() && seen.size() < most; ++k) {
    const Node& node = maker(g, seen[k]);
    if (node.op == Op::reduce) return true;
    if (!is_map(node.op) && node.op != Op::view && node.op != Op::reshape) continue;
    for (ValueId in : node.in) {
      if (std::find(seen.begin(), seen.end(), in) == seen.end()) seen.push_back(in);
    }
  }
  return false;
}

// True for a reshape of a view that merges axes which are no neighbours in the view's operand: windows put together again. It is a copy.
bool merges_apart(const Graph& g, const Node& reshape) {
  const Node& made = maker(g, reshape.in[0]);
  if (made.op != Op::view || made.attributes.map("map").fill) return false;
  const AffineMap& map = made.attributes.map("map");
  const auto steps = steps_of(map);
  const Dims& from = g.type(reshape.in[0]).dims;
  const auto parts = ir::merged_axes(from, g.type(reshape.out[0]).dims);
  if (!steps || !parts) return false;
  for (const std::vector<size_t>& part : *parts) {
    for (size_t k = 0; k + 1 < part.size(); ++k) {
      const auto &outer = (*steps)[part[k]], &inner = (*steps)[part[k + 1]];
      if (!outer || !inner) continue;  // repeats
      const bool whole = inner->axis == outer->axis + 1 && outer->step == 1 && is_all_of(map, part, inner->axis, g.type(made.in[0]).dims[inner->axis]);
      const bool one = inner->axis == outer->axis && Dim(outer->step) == Dim(inner->step) * from[part[k + 1]];
      if (!whole && !one) return true;
    }
  }
  return false;
}

// A reshape, perhaps behind a view that changes nothing, that merges axes of what was normalised or of what repeats, or is a copy: its operand. Other pointwise work
// gains nothing there: what follows may need the merged axes.
std::optional<ValueId> before_merge(const Graph& g, ValueId v) {
  const Dims& dims = g.type(v).dims;
  while (maker(g, v).op == Op::view && is_identity(maker(g, v).attributes.map("map"), g.type(maker(g, v).in[0]).dims)) v = maker(g, v).in[0];
  const Node& reshape = maker(g, v);
  if (reshape.op != Op::reshape || g.type(reshape.in[0]).dims.size() <= dims.size() || !ir::merged_axes(g.type(reshape.in[0]).dims, dims)) return std::nullopt;
  ValueId from = reshape.in[0];
  bool repeats = false;
  for (; maker(g, from).op == Op::view && !maker(g, from).attributes.map("map").fill; from = maker(g, from).in[0]) {
    const AffineMap& map = maker(g, from).attributes.map("map");
    const auto steps = steps_of(map);
    for (size_t d = 0; steps && d < steps->size(); ++d) repeats = repeats || (!(*steps)[d] && !(map.dims[d] == Dim(1)));
  }
  return repeats || merges_apart(g, reshape) || (is_map(maker(g, from).op) && has_reduction(g, from)) ? std::optional(reshape.in[0]) : std::nullopt;
}

// Pointwise work on merged axes of what pointwise work made is done before they are merged: both become one body.
std::optional<ValueId> map_before_merge(Graph& g, const Node& node, const std::vector<ValueId>& in, const Dims& dims) {
  std::optional<ValueId> found;
  for (ValueId v : in) {
    if (!found && g.type(v).dims == dims) found = before_merge(g, v);
  }
  if (!found) return std::nullopt;
  const Dims split = g.type(*found).dims;
  const auto parts = *ir::merged_axes(split, dims);
  auto taken_apart = [&](const Dims& of) {
    const size_t lead = dims.size() - of.size();
    Dims out;
    for (size_t j = lead; j < dims.size(); ++j) {
      if (parts[j].empty()) out.push_back(1);
      for (size_t axis : parts[j]) out.push_back(of[j - lead] == Dim(1) ? Dim(1) : split[axis]);
    }
    return out;
  };
  if (taken_apart(dims) != split) return std::nullopt;  // the merge leaves out axes of size 1
  std::vector<ValueId> operands;
  for (ValueId v : in) {
    const Dims wanted = taken_apart(g.type(v).dims);
    const std::optional<ValueId> before = before_merge(g, v);
    operands.push_back(before && g.type(*before).dims == wanted ? *before : ir::reshape(Handle(&g, v), wanted).id());
  }
  ir::Type type = infer(g, node.op, operands, node.attributes)[0];
  return ir::reshape(Handle(&g, g.add(node.op, operands, node.attributes, std::move(type))), dims).id();
}

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

// An axis that holds a group's axes; axis a of a value is its index `position[a]`.
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

// A view of shape `dims` with an axis for each group.
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

template <class Reduced>
Axes reduced_groups(const std::vector<Order>& groups, Reduced is_reduced) {
  Axes out;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (is_reduced(groups[i][0])) out.push_back(static_cast<ir::Axis>(i));
  }
  return out;
}

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

std::optional<ValueId> map_in_order(Graph& g, WeightValues& weights, const Node& node, std::vector<ValueId> in, const Dims& dims) {
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
  if (!order || !turns(*order, dims)) return std::nullopt;
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

// A reduction, whose axes move. Axes that are one in memory stay one, so that work on the result's rows can share its body.
std::optional<ValueId> reduction_in_order(Graph& g, const Node& node, ValueId x) {
  const std::optional<Order> order = order_of(g, x);
  const std::string& kind = node.attributes.string("kind");
  const Dims dims = g.type(x).dims;
  if (!order || !turns(*order, dims) || kind == "argmax" || kind == "argmin") return std::nullopt;  // those count places
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

// A reshape of a view that merges axes which are neighbours in memory too: parts of one axis of the base become one again, whole axes of the base are merged there.
std::optional<ValueId> merged_in_base(Graph& g, ValueId x, const Dims& to) {
  const std::optional<Order> order = order_of(g, x);
  const Dims from = g.type(x).dims;
  const auto parts = ir::merged_axes(from, to);
  if (!order || !parts) return std::nullopt;
  const Node& made = maker(g, x);
  const Handle base(&g, made.in[0]);
  const AffineMap map = made.attributes.map("map");
  const auto steps = *steps_of(map);
  std::vector<bool> joins(base.dims().size(), false);  // axes of the base that belong to the one before
  std::vector<bool> inner(from.size(), false);         // indices that the one before them counts too
  for (const std::vector<size_t>& part : *parts) {
    for (size_t k = 0; k + 1 < part.size(); ++k) {
      const size_t p = part[k], q = part[k + 1];
      if (!steps[p] || !steps[q]) return std::nullopt;
      const size_t outer = steps[p]->axis, next = steps[q]->axis;
      if (one_axis({map}, p, q, from)) {
        inner[p] = true;
      } else if (next == outer + 1 && steps[p]->step == 1 && is_all_of(map, part, next, base.dims()[next])) {
        joins[next] = true;
      } else {
        return std::nullopt;
      }
    }
    // Whole axes are merged, no parts of them.
    for (size_t axis : part) {
      if (!steps[axis]) continue;
      const size_t a = steps[axis]->axis;
      if ((joins[a] || (a + 1 < joins.size() && joins[a + 1])) && !is_all_of(map, part, a, base.dims()[a])) return std::nullopt;
    }
  }
  if (std::count(joins.begin(), joins.end(), true) != 0 && !turns(*order, from)) return std::nullopt;
  std::vector<uint32_t> position(from.size(), 0);
  for (uint32_t j = 0; j < to.size(); ++j) {
    for (size_t axis : (*parts)[j]) position[axis] = j;
  }
  Dims merged;
  AffineMap over;
  over.dims = to;
  for (size_t a = 0; a < joins.size(); ++a) {
    if (joins[a]) {
      merged.back() *= base.dims()[a];
      continue;
    }
    merged.push_back(base.dims()[a]);
    AffineMap::Axis axis = map.axes[a];
    std::erase_if(axis.terms, [&](const AffineMap::Term& t) { return from[t.axis] == Dim(1) || inner[t.axis]; });
    for (AffineMap::Term& t : axis.terms) t.axis = position[t.axis];
    over.axes.push_back(std::move(axis));
  }
  return ir::view(merged == base.dims() ? base : ir::reshape(base, merged), std::move(over)).id();
}

// A reshape of a view that merges axes which are neighbours in memory, of elements that repeat too.
std::optional<ValueId> reshape_in_order(Graph& g, ValueId x, const Dims& to) {
  if (auto merged = merged_in_base(g, x, to)) return merged;
  const std::optional<Order> order = order_of(g, x);
  const Dims from = g.type(x).dims;
  const auto parts = ir::merged_axes(from, to);
  if (!order || !turns(*order, from) || !parts) return std::nullopt;
  Order left, memory;  // the result's axes, and the operand's, in memory order
  Dims merged;
  std::vector<bool> seen(to.size(), false);
  for (size_t i = 0; i < order->size();) {
    const size_t axis = (*order)[i];
    const auto part = std::find_if(parts->begin(), parts->end(), [&](const auto& p) { return std::count(p.begin(), p.end(), axis) != 0; });
    if (part == parts->end()) {
      if (!(from[axis] == Dim(1))) return std::nullopt;
      memory.push_back(axis);
      ++i;
      continue;
    }
    left.push_back(static_cast<size_t>(part - parts->begin()));
    seen[left.back()] = true;
    merged.push_back(to[left.back()]);
    // They are neighbours in memory, if in another order (the channels of a shuffle): then the copy that merges them leaves the others as they lie.
    const size_t end = i + part->size();
    if (end > order->size() || !std::is_permutation(part->begin(), part->end(), order->begin() + static_cast<int64_t>(i))) return std::nullopt;
    memory.insert(memory.end(), part->begin(), part->end());
    i = end;
  }
  for (size_t j = 0; j < to.size(); ++j) {  // of size 1: beside the axis before it, as in order_of
    if (seen[j]) continue;
    const auto at = j == 0 ? left.begin() : std::find(left.begin(), left.end(), j - 1) + 1;
    merged.insert(merged.begin() + (at - left.begin()), Dim(1));
    left.insert(at, j);
  }
  return put_back(ir::reshape(ir::permute(Handle(&g, x), axes_of(memory)), merged), left).id();
}

// A concatenation, if most of what is joined lies in one order.
std::optional<ValueId> concat_in_order(Graph& g, const Node& node, const std::vector<ValueId>& in, const Dims& dims) {
  const auto axis = static_cast<size_t>(node.attributes.integer("axis"));
  std::optional<Order> order;
  std::vector<AffineMap> maps;
  for (ValueId v : in) {
    const std::optional<Order> own = order_of(g, v);
    if (!own || !turns(*own, g.type(v).dims)) continue;
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

// Elements chosen along one axis, as resampling does: the axes of the index stand where that axis lies in memory.
std::optional<ValueId> gather_in_order(Graph& g, const Node& node, const std::vector<ValueId>& in) {
  const std::optional<Order> order = order_of(g, in[0]);
  const std::vector<int64_t> axes = node.attributes.integers("axes");
  if (!order || !turns(*order, g.type(in[0]).dims) || node.attributes.integer("position") != axes[0]) return std::nullopt;
  const auto first = static_cast<size_t>(axes[0]), last = first + axes.size() - 1;
  const auto place = std::find(order->begin(), order->end(), first);
  for (size_t k = 0; k < axes.size(); ++k) {  // neighbours, also in memory
    if (axes[k] != axes[0] + static_cast<int64_t>(k) || order->end() - place <= static_cast<ptrdiff_t>(k) || place[static_cast<ptrdiff_t>(k)] != first + k) return std::nullopt;
  }
  size_t more = 0;
  std::vector<Handle> indices;
  for (size_t k = 1; k < in.size(); ++k) {
    more = std::max(more, g.type(in[k]).dims.size());
    indices.emplace_back(&g, in[k]);
  }
  const int64_t position = place - order->begin();
  std::vector<int64_t> there(axes.size());
  std::iota(there.begin(), there.end(), position);
  Order after;
  for (size_t o : *order) {
    if (o < first || o > last) after.push_back(o < first ? o : o + more - axes.size());
    for (size_t k = 0; o == first && k < more; ++k) after.push_back(first + k);
  }
  const Handle y = ir::gather(ir::permute(Handle(&g, in[0]), axes_of(*order)), there, indices, position, node.attributes.boolean("wrap"));
  return put_back(y, after).id();
}

// As a concatenation of one part, which is stored.
ValueId copied(Graph& g, ValueId v) {
  ir::Attributes axis;
  axis.set("axis", int64_t{0});
  ir::Type type = g.type(v);
  return g.add(Op::concat, {v}, std::move(axis), std::move(type));
}

// True if pointwise work and chosen elements alone stand between a value and the model's results.
bool ends_outside(const Graph& g, const std::vector<std::vector<ir::NodeId>>& users, ValueId v) {
  constexpr size_t most = 64;  // values that are looked at
  std::vector<ValueId> seen{v};
  for (size_t k = 0; k < seen.size(); ++k) {
    for (ir::NodeId user : users[seen[k]]) {
      const Node& node = g.nodes[user];
      const bool goes_on = is_map(node.op) || node.op == Op::view || node.op == Op::reshape || (node.op == Op::gather && node.in[0] == seen[k]);
      if (!goes_on || seen.size() == most) return false;
      if (std::find(seen.begin(), seen.end(), node.out[0]) == seen.end()) seen.push_back(node.out[0]);
    }
  }
  return true;
}

// Elements chosen along one axis, more than there were, that leave the model: what they are chosen from is copied once into the model's order. A copy of the results
// would be larger.
std::optional<ValueId> gather_in_model_order(Graph& g, const Node& node, const std::vector<ValueId>& in, std::map<ValueId, ValueId>& copies) {
  const std::optional<Order> order = order_of(g, in[0]);
  const std::vector<int64_t> axes = node.attributes.integers("axes");
  if (!order || !turns(*order, g.type(in[0]).dims) || axes.size() != 1) return std::nullopt;
  const auto from = g.type(in[0]).dims[static_cast<size_t>(axes[0])].constant(), to = ir::product(g.type(in[1]).dims).constant();
  if (!from || !to || *to <= *from) return std::nullopt;
  auto [copy, is_new] = copies.try_emplace(in[0], in[0]);
  if (is_new) copy->second = copied(g, in[0]);
  return ir::gather(Handle(&g, copy->second), {axes[0]}, {Handle(&g, in[1])}, node.attributes.integer("position"), node.attributes.boolean("wrap")).id();
}

// Elements chosen along merged axes whose merge would be a copy: they are chosen along the axes as they were, by the parts of each index.
std::optional<ValueId> gather_before_merge(Graph& g, const Node& node, const std::vector<ValueId>& in) {
  const Node reshape = maker(g, in[0]);
  if (reshape.op != Op::reshape || node.attributes.boolean("wrap") || !merges_apart(g, reshape)) return std::nullopt;
  const Dims merged = g.type(in[0]).dims;
  const auto parts = *ir::merged_axes(g.type(reshape.in[0]).dims, merged);
  const std::vector<int64_t> axes = node.attributes.integers("axes");
  Dims from;  // with an axis for each of the merge's parts, and for those of size 1
  std::vector<int64_t> finer;
  std::vector<Handle> indices;
  for (size_t j = 0; j < merged.size(); ++j) {
    Dims sizes;
    for (size_t axis : parts[j]) sizes.push_back(g.type(reshape.in[0]).dims[axis]);
    if (sizes.empty()) sizes.push_back(1);
    const size_t first = from.size();
    from.insert(from.end(), sizes.begin(), sizes.end());
    const auto found = std::find(axes.begin(), axes.end(), static_cast<int64_t>(j));
    if (found == axes.end()) {
      if (sizes.size() > 1) return std::nullopt;
      continue;
    }
    Handle index(&g, in[1 + static_cast<size_t>(found - axes.begin())]);
    for (size_t k = sizes.size(); k-- > 0;) {
      finer.push_back(static_cast<int64_t>(first + k));
      indices.push_back(k == 0 ? index : ir::map(Op::mod, {index, ir::Operand(sizes[k])}));
      if (k > 0) index = ir::map(Op::floordiv, {index, ir::Operand(sizes[k])});
    }
  }
  return ir::gather(ir::reshape(Handle(&g, reshape.in[0]), from), finer, indices, node.attributes.integer("position"), false).id();
}

// What a convolution's windows move over, with its channels innermost: kernels read neighbouring channels, which see the same windows. Where they lie otherwise, in
// an image from outside, it is copied once, as a concatenation of one part. Images of few channels stay as they are.
// `first`: the first axis behind the channels.
std::optional<ValueId> with_channels_last(Graph& g, size_t first, size_t rank, ValueId x, std::map<ValueId, ValueId>& copies) {
  const Dims dims = g.type(x).dims;
  Dim channels = 1;
  for (size_t a = 1; a < first; ++a) channels *= dims[a];
  constexpr int64_t few = 4;
  if (channels.constant().value_or(few) < few) return std::nullopt;
  if (const auto order = order_of(g, x); order && turns(*order, dims)) return std::nullopt;
  const Node made = maker(g, x);
  const bool pads = made.op == Op::view && made.attributes.map("map").fill;
  const ValueId base = pads ? made.in[0] : x;
  if (pads && (made.attributes.map("map").axes.size() != rank || g.type(base).dims.size() != rank)) return std::nullopt;
  if (const auto order = order_of(g, base); order && turns(*order, g.type(base).dims)) return std::nullopt;
  auto [copy, is_new] = copies.try_emplace(base, base);
  if (is_new) {
    Order order{0};
    for (size_t a = first; a < rank; ++a) order.push_back(a);
    for (size_t a = 1; a < first; ++a) order.push_back(a);
    copy->second = put_back(Handle(&g, copied(g, ir::permute(Handle(&g, base), axes_of(order)).id())), order).id();
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

// True if the value is the end of a product alone, pointwise work behind it with one reader: its kernel does it, in its own axes.
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

void propagate_layout(Graph& g) {
  WeightValues weights(g);
  const auto users = g.users();
  std::map<ValueId, ValueId> copies;
  rewrite(g, [&](Graph& to, const Node& node, std::vector<ValueId> in) -> std::optional<ValueId> {
    if (const auto first = node.op == Op::view && !node.attributes.map("map").fill ? first_spatial(g, users, node) : std::nullopt; first && !weights.contain(to, in[0])) {
      if (const auto turned = with_channels_last(to, *first, node.attributes.map("map").axes.size(), in[0], copies)) in[0] = *turned;
    }
    const Dims& dims = g.type(node.out[0]).dims;
    if (node.op == Op::reduce && g.type(node.in[0]).dims.size() >= 3) return reduction_in_order(to, node, in[0]);
    if (node.op == Op::view && !node.attributes.map("map").fill && order_of(to, in[0])) {  // windows on what was put back: one view shows the order
      return ir::view(Handle(&to, maker(to, in[0]).in[0]), compose(node.attributes.map("map"), maker(to, in[0]).attributes.map("map"))).id();
    }
    if (dims.size() < 3) return std::nullopt;
    if (node.op == Op::reshape) return reshape_in_order(to, in[0], dims);
    if (node.op == Op::concat) return concat_in_order(to, node, in, dims);
    if (node.op == Op::gather) {
      if (ends_outside(g, users, node.out[0])) {
        if (const auto plain = gather_in_model_order(to, node, in, copies)) return plain;
      }
      const std::optional<ValueId> turned = gather_in_order(to, node, in);
      return turned ? turned : gather_before_merge(to, node, in);
    }
    if (is_map(node.op)) {
      const std::optional<ValueId> turned = map_in_order(to, weights, node, in, dims);
      if (turned || std::any_of(node.in.begin(), node.in.end(), [&](ValueId v) { return ends_product(g, users, v); })) return turned;
      return map_before_merge(to, node, in, dims);
    }
    if (node.op == Op::view && node.attributes.map("map").fill) return pad_in_order(to, node.attributes.map("map"), in[0]);
    return std::nullopt;
  });
}

}  // namespace ingot::lower
