#include "lower/layout/rules.h"

#include <algorithm>

#include "ir/reshape_groups.h"

namespace ingot::lower {

namespace {

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
  if (std::count(joins.begin(), joins.end(), true) != 0 && !is_transposed(*order, from)) return std::nullopt;
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
std::optional<ValueId> merged_in_order(Graph& g, ValueId x, const Dims& to) {
  if (auto merged = merged_in_base(g, x, to)) return merged;
  const std::optional<Order> order = order_of(g, x);
  const Dims from = g.type(x).dims;
  const auto parts = ir::merged_axes(from, to);
  if (!order || !is_transposed(*order, from) || !parts) return std::nullopt;
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
    // They are neighbours in memory, if in another order (the channels of a shuffle): then the copy that merges them leaves the others in place.
    const size_t end = i + part->size();
    if (end > order->size() || !std::is_permutation(part->begin(), part->end(), order->begin() + static_cast<int64_t>(i))) return std::nullopt;
    memory.insert(memory.end(), part->begin(), part->end());
    i = end;
  }
  for (size_t j = 0; j < to.size(); ++j) {  // of size 1: next to the axis before it, as in order_of
    if (seen[j]) continue;
    const auto at = j == 0 ? left.begin() : std::find(left.begin(), left.end(), j - 1) + 1;
    merged.insert(merged.begin() + (at - left.begin()), Dim(1));
    left.insert(at, j);
  }
  return permuted_back(ir::reshape(ir::permute(Handle(&g, x), axes_of(memory)), merged), left).id();
}

}  // namespace

std::optional<ValueId> reshape_in_order(Layouts& layouts, Graph& to, const Node& node, const std::vector<ValueId>& in) {
  const Dims& dims = layouts.graph.type(node.out[0]).dims;
  return dims.size() < 3 ? std::nullopt : merged_in_order(to, in[0], dims);
}

}  // namespace ingot::lower
