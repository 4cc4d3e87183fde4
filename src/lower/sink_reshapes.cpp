// A linear layer that flattens its input, [B, S, K] -> [B*S, K], works on [B, S, K] instead: the reshape moves after it and after the pointwise operations that
// follow, until it meets the reshape that restores the axes, and both disappear.
#include <algorithm>

#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

// A view that only adds or drops axes of size 1: a reshape of one row becomes such a view.
bool moves_units(const Graph& g, const Node& n) {
  if (n.op != Op::view || n.attributes.map("map").fill) return false;
  const ir::AffineMap& map = n.attributes.map("map");
  const Dims& from = g.type(n.in[0]).dims;
  int64_t last = -1;
  size_t wide = 0;
  for (size_t a = 0; a < from.size(); ++a) {
    const ir::AffineMap::Axis& axis = map.axes[a];
    if (!(axis.offset == Dim(0))) return false;
    if (from[a] == Dim(1)) continue;
    if (axis.terms.size() != 1 || axis.terms[0].coefficient != 1 || axis.terms[0].axis <= last || !(map.dims[axis.terms[0].axis] == from[a])) return false;
    last = axis.terms[0].axis;
    ++wide;
  }
  return wide == static_cast<size_t>(std::count_if(map.dims.begin(), map.dims.end(), [](const Dim& d) { return !(d == Dim(1)); }));
}

// The value before a reshape that merges leading axes into one, [.., K] -> [M, K]; trailing axes that form K are merged first.
std::optional<ValueId> unmerged(Graph& g, ValueId v) {
  const Node& n = maker(g, v);
  if (n.op != Op::reshape && !moves_units(g, n)) return std::nullopt;
  ValueId x = n.in[0];
  Dims from = g.type(x).dims;
  const Dims& to = g.type(v).dims;
  if (to.size() != 2 || from.size() < 3) return std::nullopt;
  Dim inner = from.back();
  size_t first = from.size() - 1;
  while (!(inner == to[1])) {
    if (first < 3) return std::nullopt;
    inner *= from[--first];
  }
  if (first + 1 == from.size()) return x;
  from.resize(first);
  from.push_back(inner);
  return ir::reshape(Handle(&g, x), from).id();
}

std::optional<ValueId> lifted_map(Graph& g, const Node& node, const std::vector<ValueId>& in, const Dims& dims) {
  std::vector<ValueId> operands = in;
  std::optional<Dims> leading;
  if (dims.size() != 2) return std::nullopt;
  for (size_t i = 0; i < in.size(); ++i) {
    const Dims d = g.type(in[i]).dims;
    if (auto x = unmerged(g, in[i]); x && d == dims) {
      const Dims wide = g.type(*x).dims;
      if (leading && !(*leading == wide)) return std::nullopt;
      leading = wide;
      operands[i] = *x;
    } else if (d.size() > 1 && !(d.size() == 2 && d[0] == Dim(1))) {
      return std::nullopt;
    }
  }
  if (!leading) return std::nullopt;
  ir::Type type = infer(g, node.op, operands, node.attributes)[0];
  return ir::reshape(Handle(&g, g.add(node.op, operands, node.attributes, std::move(type))), dims).id();
}

}  // namespace

void sink_reshapes(Graph& g) {
  WeightValues weights(g);
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    const Dims& dims = g.type(node.out[0]).dims;
    if (node.op == Op::matmul) {
      auto x = unmerged(to, in[0]);
      if (!x || to.type(in[1]).dims.size() != 2 || !weights.contain(to, in[1])) return std::nullopt;
      return ir::reshape(ir::matmul(Handle(&to, *x), Handle(&to, in[1]), node.attributes), dims).id();
    }
    if (is_map(node.op)) return lifted_map(to, node, in, dims);
    if (node.op == Op::reshape && is(to, in[0], Op::reshape)) return ir::reshape(Handle(&to, maker(to, in[0]).in[0]), dims).id();
    return std::nullopt;
  });
}

}  // namespace ingot::lower
