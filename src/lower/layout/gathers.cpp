#include "lower/layout/rules.h"

#include <algorithm>
#include <numeric>

#include "ir/reshape_groups.h"
#include "lower/layout/merges.h"
#include "lower/tuning.h"

namespace ingot::lower {

namespace {

// Elements chosen along one axis, as resampling does: the axes of the index take the place of that axis in memory.
std::optional<ValueId> chosen_in_order(Graph& g, const Node& node, const std::vector<ValueId>& in) {
  const std::optional<Order> order = order_of(g, in[0]);
  const std::vector<int64_t> axes = node.attributes.integers("axes");
  if (!order || !is_transposed(*order, g.type(in[0]).dims) || node.attributes.integer("position") != axes[0]) return std::nullopt;
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
  return permuted_back(y, after).id();
}

// True if pointwise work and chosen elements alone stand between a value and the model's results.
bool ends_outside(const Graph& g, const std::vector<std::vector<ir::NodeId>>& users, ValueId v) {
  std::vector<ValueId> seen{v};
  for (size_t k = 0; k < seen.size(); ++k) {
    for (ir::NodeId user : users[seen[k]]) {
      const Node& node = g.nodes[user];
      const bool goes_on = is_map(node.op) || node.op == Op::view || node.op == Op::reshape || (node.op == Op::gather && node.in[0] == seen[k]);
      if (!goes_on || seen.size() == tuning::max_layout_values) return false;
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
  if (!order || !is_transposed(*order, g.type(in[0]).dims) || axes.size() != 1) return std::nullopt;
  const auto from = g.type(in[0]).dims[static_cast<size_t>(axes[0])].constant(), to = ir::product(g.type(in[1]).dims).constant();
  if (!from || !to || *to <= *from) return std::nullopt;
  auto [copy, is_new] = copies.try_emplace(in[0], in[0]);
  if (is_new) copy->second = copied(g, in[0]);
  return ir::gather(Handle(&g, copy->second), {axes[0]}, {Handle(&g, in[1])}, node.attributes.integer("position"), node.attributes.boolean("wrap")).id();
}

// Elements chosen along merged axes whose merge would be a copy: they are chosen along the axes as they were, by the parts of each index.
std::optional<ValueId> gather_before_merge(Graph& g, const Node& node, const std::vector<ValueId>& in) {
  const Node reshape = maker(g, in[0]);
  if (reshape.op != Op::reshape || node.attributes.boolean("wrap") || !merges_strided(g, reshape)) return std::nullopt;
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

}  // namespace

std::optional<ValueId> gather_in_order(Layouts& layouts, Graph& to, const Node& node, const std::vector<ValueId>& in) {
  if (layouts.graph.type(node.out[0]).dims.size() < 3) return std::nullopt;
  if (ends_outside(layouts.graph, layouts.users, node.out[0])) {
    if (const auto plain = gather_in_model_order(to, node, in, layouts.copies)) return plain;
  }
  const std::optional<ValueId> done = chosen_in_order(to, node, in);
  return done ? done : gather_before_merge(to, node, in);
}

}  // namespace ingot::lower
