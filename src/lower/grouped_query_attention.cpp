// Grouped-query attention written with repeated keys and values: the heads become [groups, heads per group], and keys and values are
// read in place by an axis of size 1.
#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

struct Repeated {
  ValueId source;  // [.., G, 1, T, D]
  Dim groups, each;
};

// reshape([.., G, R, T, D] -> [.., G*R, T, D]) of a view that repeats over R.
std::optional<Repeated> repeated(Graph& g, ValueId v) {
  const Node merge = maker(g, v);
  if (merge.op != Op::reshape) return std::nullopt;
  const Dims from = g.type(merge.in[0]).dims, to = g.type(v).dims;
  if (from.size() != to.size() + 1 || to.size() < 3) return std::nullopt;
  size_t r = from.size() - 3;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i + 1 < r && !(from[i] == to[i])) return std::nullopt;
    if (i > r && !(from[i] == to[i - 1])) return std::nullopt;
  }
  if (!(from[r - 1] * from[r] == to[r - 1])) return std::nullopt;
  const Node repeat = maker(g, merge.in[0]);
  if (repeat.op != Op::view) return std::nullopt;
  ir::AffineMap map = repeat.attributes.map("map");
  if (map.fill) return std::nullopt;
  for (const ir::AffineMap::Axis& axis : map.axes) {
    for (const ir::AffineMap::Term& t : axis.terms) {
      if (t.axis == r) return std::nullopt;
    }
  }
  map.dims[r] = 1;
  return Repeated{ir::view(Handle(&g, repeat.in[0]), std::move(map)).id(), from[r - 1], from[r]};
}

}  // namespace

void grouped_query_attention(Graph& g) {
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op != Op::attention) return std::nullopt;
    auto k = repeated(to, in[1]);
    if (!k) return std::nullopt;
    auto v = repeated(to, in[2]);
    if (!v || !(v->groups == k->groups) || !(v->each == k->each)) return std::nullopt;
    Handle q(&to, in[0]);
    Dim heads = k->groups * k->each;
    if (q.rank() + 1 != static_cast<int64_t>(to.type(k->source).dims.size()) || !(q.dim(-3) == heads)) return std::nullopt;
    auto split = [&](const Handle& x) {
      Dims d = x.dims();
      d[d.size() - 3] = k->groups;
      d.insert(d.end() - 2, k->each);
      return ir::reshape(x, d);
    };
    std::optional<Handle> mask;
    const ir::AttentionInputs of = ir::attention_inputs(node, in);
    if (of.mask != ir::none_id) {
      mask = Handle(&to, of.mask);
      if (mask->rank() >= 3) {
        if (mask->dim(-3) == Dim(1)) {
          mask = ir::unsqueeze(*mask, -3);
        } else if (mask->dim(-3) == heads) {
          mask = split(*mask);
        } else {
          return std::nullopt;
        }
      }
    }
    std::optional<Handle> filled;
    if (of.filled != ir::none_id) filled = Handle(&to, of.filled);
    Handle y = ir::attention(split(q), Handle(&to, k->source), Handle(&to, v->source), mask, node.attributes.number("scale"), node.attributes.boolean("causal"), filled);
    return ir::reshape(y, g.type(node.out[0]).dims).id();
  });
}

}  // namespace ingot::lower
