// The same pointwise operations on neighbouring slices of one tensor (RoPE on the query and key heads of a merged projection) run once over both; what read
// the slices reads slices of the result.
#include <algorithm>

#include "lower/passes.h"
#include "lower/rewrite.h"
#include "lower/tuning.h"

namespace ingot::lower {

namespace {

using ir::AffineMap;

// Builds the value whose slices along an axis are a and b.
class Union {
 public:
  explicit Union(Graph& g) : g_(g) {}

  // `axis` counts from the end, since operands of a map may have fewer axes.
  std::optional<ValueId> of(ValueId a, ValueId b, size_t from_end, int depth = 0) {
    const Dims da = g_.type(a).dims, db = g_.type(b).dims;
    if (a == b) {
      bool same_everywhere = da.size() < from_end || da[da.size() - from_end] == Dim(1);
      return same_everywhere ? std::optional(a) : std::nullopt;
    }
    if (depth > tuning::max_fused_steps || da.size() != db.size() || da.size() < from_end || !(g_.type(a).dtype == g_.type(b).dtype)) return std::nullopt;
    size_t axis = da.size() - from_end;
    for (size_t i = 0; i < da.size(); ++i) {
      if (i != axis && !(da[i] == db[i])) return std::nullopt;
    }
    const Node na = maker(g_, a), nb = maker(g_, b);
    if (na.op != nb.op) return std::nullopt;
    if (is_map(na.op)) {
      if (!(na.attributes == nb.attributes)) return std::nullopt;
      std::vector<ValueId> in;
      for (size_t i = 0; i < na.in.size(); ++i) {
        auto both = of(na.in[i], nb.in[i], from_end, depth + 1);
        if (!both) return std::nullopt;
        in.push_back(*both);
      }
      ir::Type type = infer(g_, na.op, in, na.attributes)[0];
      return g_.add(na.op, std::move(in), na.attributes, std::move(type));
    }
    if (na.op != Op::view) return std::nullopt;
    const AffineMap ma = na.attributes.map("map"), mb = nb.attributes.map("map");
    if (!(ma.fill == mb.fill)) return std::nullopt;
    AffineMap both = ma;
    both.dims[axis] = da[axis] + db[axis];
    return na.in[0] == nb.in[0] ? neighbours(na.in[0], ma, mb, std::move(both), axis) : deeper(na.in[0], nb.in[0], ma, mb, std::move(both), axis, depth);
  }

 private:
  // Views of one value; the second begins where the first ends.
  std::optional<ValueId> neighbours(ValueId source, const AffineMap& ma, const AffineMap& mb, AffineMap both, size_t axis) {
    if (ma.fill) return std::nullopt;
    bool moved = false;
    for (size_t i = 0; i < ma.axes.size(); ++i) {
      if (ma.axes[i].terms != mb.axes[i].terms) return std::nullopt;
      Dim step = 0;
      for (const AffineMap::Term& t : ma.axes[i].terms) {
        if (t.axis == axis) step = t.coefficient;
      }
      if (!(mb.axes[i].offset - ma.axes[i].offset == step * ma.dims[axis])) return std::nullopt;
      moved = moved || !(step == Dim(0));
    }
    if (!moved) return std::nullopt;
    return ir::view(Handle(&g_, source), std::move(both)).id();
  }

  // The same view of two values that are themselves slices: the view must leave the axis as it is.
  std::optional<ValueId> deeper(ValueId a, ValueId b, const AffineMap& ma, const AffineMap& mb, AffineMap both, size_t axis, int depth) {
    if (ma.axes != mb.axes) return std::nullopt;
    std::optional<size_t> inner;
    for (size_t i = 0; i < ma.axes.size(); ++i) {
      for (const AffineMap::Term& t : ma.axes[i].terms) {
        if (t.axis != axis) continue;
        if (inner || ma.axes[i].terms.size() != 1 || t.coefficient != 1 || !(ma.axes[i].offset == Dim(0))) return std::nullopt;
        inner = i;
      }
    }
    if (!inner || !(g_.type(a).dims[*inner] == ma.dims[axis]) || !(g_.type(b).dims[*inner] == mb.dims[axis])) return std::nullopt;
    auto source = of(a, b, g_.type(a).dims.size() - *inner, depth + 1);
    if (!source) return std::nullopt;
    return ir::view(Handle(&g_, *source), std::move(both)).id();
  }

  Graph& g_;
};

// The value below views that move no element, and the view of it.
struct Seen {
  ValueId base;
  std::optional<AffineMap> map;
};
Seen below(const Graph& g, ValueId v) {
  const Node& n = maker(g, v);
  if (n.op == Op::view && !n.attributes.map("map").fill) return {n.in[0], n.attributes.map("map")};
  return {v, std::nullopt};
}

}  // namespace

void horizontal_fusion(Graph& g) {
  std::vector<int> uses = use_counts(g);
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op != Op::attention || in[0] == in[1] || ir::attention_inputs(node).filled != ir::none_id) return std::nullopt;
    Seen q = below(to, in[0]), k = below(to, in[1]);
    // Slices that are also read elsewhere would be computed twice.
    for (size_t i : {size_t{0}, size_t{1}}) {
      Seen old = below(g, node.in[i]);
      if (uses[node.in[i]] != 1 || uses[old.base] != 1) return std::nullopt;
    }
    if (!is_map(maker(to, q.base).op) || !is_map(maker(to, k.base).op)) return std::nullopt;
    const Dims dq = to.type(q.base).dims, dk = to.type(k.base).dims;
    if (dq.size() != dk.size()) return std::nullopt;
    std::vector<size_t> different;
    for (size_t i = 0; i < dq.size(); ++i) {
      if (!(dq[i] == dk[i])) different.push_back(i);
    }
    // Equal shapes: the heads are the axis before the positions.
    size_t axis = different.size() == 1 ? different[0] : dq.size() - 3;
    if (different.size() > 1 || dq.size() < 3) return std::nullopt;
    // The new nodes keep the place in the user's program.
    ir::OriginId origin = to.current_origin;
    uint32_t group = to.current_group;
    to.current_origin = maker(to, q.base).origin;
    to.current_group = maker(to, q.base).group;
    auto both = Union(to).of(q.base, k.base, dq.size() - axis);
    to.current_origin = origin;
    to.current_group = group;
    if (!both) return std::nullopt;
    Handle whole(&to, *both);
    auto part = [&](const Seen& s, const Dim& start, const Dim& size) {
      Handle slice = ir::view(whole, ir::slice_map(whole.dims(), static_cast<int64_t>(axis), start, size, 1));
      return s.map ? ir::view(slice, *s.map) : slice;
    };
    std::optional<Handle> mask;
    if (in.size() == 4) mask = Handle(&to, in[3]);
    Handle keys = part(k, dq[axis], dk[axis]), queries = part(q, 0, dq[axis]);  // in this order with every compiler
    return ir::attention(queries, keys, Handle(&to, in[2]), mask, node.attributes.number("scale"), node.attributes.boolean("causal")).id();
  });
}

}  // namespace ingot::lower
