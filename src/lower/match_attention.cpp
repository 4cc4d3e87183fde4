// Written-out attention: softmax(scale * q k^T + mask) v becomes one attention node.
#include <cmath>

#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

struct Scores {
  ValueId q, k;  // k as [.., K, T]
  double scale = 1;
  std::vector<ValueId> masks;  // added to the scores
};

bool last_axis_reduce(const Graph& g, const Node& n, const char* kind, size_t rank) {
  (void)g;
  return n.op == Op::reduce && n.attributes.string("kind") == kind && n.attributes.boolean("keep") &&
         n.attributes.integers("axes") == std::vector<int64_t>{static_cast<int64_t>(rank) - 1};
}

// The argument of a softmax over the last axis.
std::optional<ValueId> softmax_argument(const Graph& g, ValueId v) {
  const Node& division = maker(g, v);
  size_t rank = g.type(v).dims.size();
  if (division.op != Op::div || rank < 2) return std::nullopt;
  ValueId e = division.in[0];
  const Node &sum = maker(g, division.in[1]), &exponential = maker(g, e);
  if (!last_axis_reduce(g, sum, "sum", rank) || sum.in[0] != e || exponential.op != Op::exp) return std::nullopt;
  const Node& difference = maker(g, exponential.in[0]);
  if (difference.op != Op::sub) return std::nullopt;
  const Node& largest = maker(g, difference.in[1]);
  if (!last_axis_reduce(g, largest, "max", rank) || largest.in[0] != difference.in[0]) return std::nullopt;
  return difference.in[0];
}

// The matmul below a scale: matmul, or matmul times or divided by a number.
std::optional<Scores> scaled_product(const Graph& g, ValueId v) {
  double scale = 1, number = 1;
  for (int i = 0; i < 4; ++i) {
    const Node& n = maker(g, v);
    if (n.op == Op::matmul) return Scores{n.in[0], n.in[1], scale, {}};
    if (auto x = with_number(g, v, Op::mul, &number)) {
      scale *= number;
      v = *x;
    } else if (auto y = with_number(g, v, Op::div, &number)) {
      scale /= number;
      v = *y;
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<Scores> scores_of(Graph& g, ValueId v, int depth = 0) {
  if (auto s = scaled_product(g, v)) return s;
  if (depth > 4) return std::nullopt;
  Node n = maker(g, v);
  if (n.op == Op::add) {
    for (size_t i : {size_t{0}, size_t{1}}) {
      auto s = scores_of(g, n.in[i], depth + 1);
      if (!s || !(g.type(n.in[i]).dims == g.type(v).dims)) continue;
      s->masks.push_back(n.in[1 - i]);
      return s;
    }
  }
  if (n.op == Op::select) {
    // scores.masked_fill(mask, lowest): adding lowest to a score gives lowest again.
    for (size_t i : {size_t{1}, size_t{2}}) {
      auto fill = number_of(g, n.in[3 - i]);
      if (!fill || std::holds_alternative<Dim>(fill->value)) continue;
      double low = fill->to_double();
      if (!(low <= -1e9 || (low <= -60000 && g.type(v).dtype == ir::DType::f16))) continue;
      auto s = scores_of(g, n.in[i], depth + 1);
      if (!s || !(g.type(n.in[i]).dims == g.type(v).dims)) continue;
      Handle condition(&g, n.in[0]), zero = ir::literal(g, 0.0, g.type(v).dtype), lowest = ir::literal(g, low, g.type(v).dtype);
      s->masks.push_back((i == 1 ? ir::select(condition, zero, lowest) : ir::select(condition, lowest, zero)).id());
      return s;
    }
  }
  return std::nullopt;
}

}  // namespace

void match_attention(Graph& g) {
  std::vector<int> uses = use_counts(g);
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    // Probabilities with another reader are computed anyway.
    if (node.op != Op::matmul || uses[node.in[0]] != 1) return std::nullopt;
    auto argument = softmax_argument(to, in[0]);
    if (!argument) return std::nullopt;
    auto s = scores_of(to, *argument);
    if (!s) return std::nullopt;
    ir::DType t = to.type(s->q).dtype;
    if (!is_float(t) || to.type(in[1]).dtype != t || to.type(in[0]).dtype != t) return std::nullopt;
    // Scores must have their own batch axes: a mask that adds some would change the shape.
    if (to.type(in[0]).dims.size() != std::max(to.type(s->q).dims.size(), to.type(s->k).dims.size())) return std::nullopt;
    std::optional<Handle> mask;
    for (ValueId m : s->masks) mask = mask ? *mask + Handle(&to, m) : Handle(&to, m);
    Handle k = ir::transpose(Handle(&to, s->k), -1, -2);
    return ir::attention(Handle(&to, s->q), k, Handle(&to, in[1]), mask, s->scale, false).id();
  });
}

}  // namespace ingot::lower
