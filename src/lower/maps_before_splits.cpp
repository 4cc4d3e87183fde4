// Pointwise work after a view that splits the rows of a product, [N, H*W, C] -> [N, H, W, C], is done before the split: in the product's own axes its kernel does it. Other operands are seen merged.
#include <algorithm>

#include "ir/reshape_groups.h"
#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

using ir::AffineMap;

// What a view splits, if it does only that and keeps the last axis.
std::optional<ValueId> before_split(const Graph& g, ValueId v) {
  const Node& n = maker(g, v);
  if (n.op != Op::view) return std::nullopt;
  const Dims &from = g.type(n.in[0]).dims, &to = g.type(v).dims;
  if (from.size() < 2 || from.size() >= to.size() || !(from.back() == to.back())) return std::nullopt;
  AffineMap map = n.attributes.map("map");
  for (AffineMap::Axis& axis : map.axes) std::erase_if(axis.terms, [&](const AffineMap::Term& t) { return to[t.axis] == Dim(1); });
  auto split = ir::split_map(from, to);
  return split && *split == map ? std::optional(n.in[0]) : std::nullopt;
}

// True if a value is a product, or pointwise work of its shape on one.
bool ends_product(const Graph& g, ValueId v) {
  for (;;) {
    const Node& n = maker(g, v);
    if (n.op == Op::matmul) return true;
    if (!is_map(n.op)) return false;
    auto whole = std::find_if(n.in.begin(), n.in.end(), [&](ValueId in) { return g.type(in).dims == g.type(v).dims && maker(g, in).op != Op::reshape; });
    if (whole == n.in.end()) return false;
    v = *whole;
  }
}

// An operand over merged rows: itself where it has a number for each column at most, or a view of what is computed in this order.
std::optional<ValueId> merged(Graph& g, ValueId v, const Dims& dims, const Dims& rows) {
  const Dims own = g.type(v).dims;
  if (auto before = before_split(g, v); before && own == dims && g.type(*before).dims == rows) return before;
  const Op op = maker(g, v).op;
  if (own == dims && (is_map(op) || op == Op::reduce)) return ir::reshape(Handle(&g, v), rows).id();
  auto is_one = [](const Dim& d) { return d == Dim(1); };
  if (std::all_of(own.begin(), own.end(), is_one)) return ir::reshape(Handle(&g, v), {}).id();
  if (own.back() == dims.back() && std::all_of(own.begin(), own.end() - 1, is_one)) return ir::reshape(Handle(&g, v), {own.back()}).id();
  return std::nullopt;
}

}  // namespace

void maps_before_splits(Graph& g) {
  const std::vector<int> uses = use_counts(g);
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    const Dims& dims = g.type(node.out[0]).dims;
    if (!is_map(node.op)) return std::nullopt;
    for (size_t i = 0; i < in.size(); ++i) {
      const std::optional<ValueId> product = before_split(to, in[i]);
      const Node& old = maker(g, node.in[i]);
      const bool one_use = uses[node.in[i]] == 1 && (old.op != Op::view || uses[old.in[0]] == 1);
      if (!product || !(to.type(in[i]).dims == dims) || !one_use || !ends_product(to, *product)) continue;
      const Dims rows = to.type(*product).dims;
      std::vector<ValueId> operands;
      for (ValueId v : in) {
        if (auto one = merged(to, v, dims, rows)) operands.push_back(*one);
      }
      if (operands.size() != in.size()) return std::nullopt;
      ir::Type type = infer(to, node.op, operands, node.attributes)[0];
      return ir::view(Handle(&to, to.add(node.op, std::move(operands), node.attributes, std::move(type))), *ir::split_map(rows, dims)).id();
    }
    return std::nullopt;
  });
}

}  // namespace ingot::lower
