#include "compile/schedule/domain.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "compile/schedule/merged_points.h"

namespace ingot::compile {

using namespace ir;

namespace {

// Finds the reductions that will be inlined, nearest first.
void find_reductions(const StoragePlan& s, ValueId v, std::vector<NodeId>& found, std::set<ValueId>& seen, bool first) {
  if (!seen.insert(v).second) return;
  if (!first && s.stored[v]) return;
  NodeId n = s.graph().values[v].producer;
  const Node& node = s.graph().nodes[n];
  if (s.is_anchor(v) || node.op == Op::attention || ir::is_leaf(node.op)) return;
  if (node.op == Op::reduce) found.push_back(n);
  if (!first && s.resolve(v)) return;
  size_t from = node.op == Op::gather || node.op == Op::take_along ? 1 : 0;
  for (size_t i = from; i < node.in.size(); ++i) find_reductions(s, node.in[i], found, seen, false);
}

// Finds the anchor that is inlined here, or none_id.
ValueId find_anchor(const StoragePlan& s, ValueId v, std::set<ValueId>& seen, bool first) {
  if (!seen.insert(v).second || (!first && s.stored[v])) return none_id;
  const Node& node = s.graph().producer(v);
  if (s.is_anchor(v)) return v;
  ValueId found = none_id;
  for (ValueId in : node.in) {
    ValueId a = find_anchor(s, in, seen, false);
    // With several, take the last: the others are computed before it.
    if (a != none_id && (found == none_id || a > found)) found = a;
  }
  return found;
}

Dims without_units(Dims dims) {
  std::erase(dims, Dim(1));
  return dims;
}

// True if the reduced axes of `full` are its last ones, `dims` ends in the same axes, and the others have equal element counts.
bool has_rows(const Dims& dims, const Dims& full, const std::vector<bool>& reduced) {
  const auto rows = static_cast<size_t>(std::count(reduced.begin(), reduced.end(), true));
  if (rows == 0 || dims.size() < rows || std::count(reduced.end() - static_cast<int64_t>(rows), reduced.end(), true) != static_cast<int64_t>(rows)) return false;
  return std::equal(dims.end() - static_cast<int64_t>(rows), dims.end(), full.end() - static_cast<int64_t>(rows)) && product(dims) == product(full);
}

// The domain is the anchor's. The root has the same number of elements, or half of the columns.
Outcome<Domain> domain_of_anchor(const StoragePlan& s, ValueId value, ValueId anchor, bool itself) {
  const Dims& dims = s.graph().type(value).dims;
  Domain out;
  out.anchor = anchor;
  out.gated = s.may_be_gated(anchor, dims);
  const Dims& domain = out.gated ? dims : s.graph().type(anchor).dims;
  std::optional<Point> at = domain == dims ? identity(dims) : point_over_anchor(s, value, anchor, itself);
  if (!at) return Missing{with_own_epilogue(s, anchor)};
  out.outer.assign(domain.begin(), domain.end() - 1);
  out.row = {domain.back()};
  out.root = std::move(*at);
  return out;
}

// The domain has the reduction's kept axes, then its reduced ones.
Outcome<Domain> domain_of_reduction(const StoragePlan& s, ValueId value, const Node& reduction) {
  const Graph& g = s.graph();
  const Dims &dims = g.type(value).dims, &full = g.type(reduction.in[0]).dims, &kept = g.type(reduction.out[0]).dims;
  std::vector<bool> reduced(full.size(), false);
  std::vector<int64_t> axes = reduction.attributes.integers("axes");
  for (size_t d = 0; d < full.size(); ++d) reduced[d] = axes.empty() || std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)) != 0;
  Domain out;
  // The result of a reduction may gain or lose axes of size 1: a pooled image is [N, C, 1, 1].
  const bool of_result = dims == kept, of_operand = !of_result && dims == full, of_view = !of_result && !of_operand && without_units(dims) == without_units(kept);
  if (!of_result && !of_operand && !of_view) {
    if (reduction.out[0] == value) fail(Code::internal, "a reduction does not have its own shape");
    if (!has_rows(dims, full, reduced)) return Missing{reduction.out[0]};
    // The outer axes are in another order, as for windows of a normalised image.
    const auto rows = static_cast<int64_t>(std::count(reduced.begin(), reduced.end(), true));
    out.outer.assign(dims.begin(), dims.end() - rows);
    out.row.assign(dims.end() - rows, dims.end());
    out.root = identity(dims);
    return out;
  }
  std::vector<uint32_t> position(full.size());
  for (size_t d = 0; d < full.size(); ++d) {
    if (reduced[d]) continue;
    position[d] = static_cast<uint32_t>(out.outer.size());
    out.outer.push_back(full[d]);
  }
  for (size_t d = 0; d < full.size(); ++d) {
    if (!reduced[d]) continue;
    position[d] = static_cast<uint32_t>(out.outer.size() + out.row.size());
    out.row.push_back(full[d]);
  }
  if (out.row.empty()) out.row = {Dim(1)};  // a reduction over no axes of a 0-d value
  out.uniform = !of_operand;
  out.root.resize(dims.size());
  const bool keep = reduction.attributes.boolean("keep");
  size_t k = 0;  // the axis of `value`
  for (size_t d = 0; d < full.size(); ++d) {
    if (of_view) {
      if (reduced[d] || full[d] == Dim(1)) continue;
      while (dims[k] == Dim(1)) ++k;
    } else if (of_result && reduced[d]) {
      if (keep) ++k;
      continue;
    }
    out.root[k++].terms[position[d]] = 1;
  }
  return out;
}

}  // namespace

Dims Domain::dims() const {
  Dims all = outer;
  all.insert(all.end(), row.begin(), row.end());
  return all;
}

Point identity(const Dims& dims) {
  Point at(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) at[d].terms[static_cast<uint32_t>(d)] = 1;
  return at;
}

bool has_anchor(const StoragePlan& s, ValueId v) {
  std::set<ValueId> seen;
  return find_anchor(s, v, seen, false) != none_id;
}

ValueId with_own_epilogue(const StoragePlan& s, ValueId v) {
  const Context& c = *s.context;
  const Graph& g = s.graph();
  for (;;) {
    if (c.uses[v] != 1 || c.users[v].size() != 1) return v;
    const Node& user = g.nodes[c.users[v][0]];
    if (!is_map(user.op) || s.stored[user.out[0]]) return v;
    const Type &before = g.type(v), &after = g.type(user.out[0]);
    if (before.dims != after.dims || size_of(after.dtype) > size_of(before.dtype)) return v;
    const bool constants = std::all_of(user.in.begin(), user.in.end(), [&](ValueId in) { return in == v || ir::is_leaf(g.producer(s.base_of(in)).op); });
    if (!constants) return v;
    v = user.out[0];
  }
}

Outcome<Domain> choose_domain(const StoragePlan& s, ValueId value, bool itself) {
  std::set<ValueId> seen;
  const ValueId anchor = find_anchor(s, value, seen, itself);
  std::vector<NodeId> reductions;
  seen.clear();
  find_reductions(s, value, reductions, seen, itself);
  if (anchor != none_id && !reductions.empty()) return Missing{with_own_epilogue(s, anchor)};
  if (anchor != none_id) return domain_of_anchor(s, value, anchor, itself);
  if (!reductions.empty()) return domain_of_reduction(s, value, s.graph().nodes[reductions[0]]);
  const Dims& dims = s.graph().type(value).dims;
  Domain out;
  out.row = {dims.empty() ? Dim(1) : dims.back()};
  if (!dims.empty()) out.outer.assign(dims.begin(), dims.end() - 1);
  out.root = identity(dims);
  return out;
}

}  // namespace ingot::compile
