// Written-out attention: softmax(scale * q k^T + mask) v becomes one attention node.
//
// Window attention adds one mask to the scores of every image: its scores are split, [B*W, H, S, T] as [B, W, H, S, T], and merged again. The attention then has the
// finer batch axes, so that each mask is read in place, by size 1 where it repeats.
#include <algorithm>
#include <cmath>

#include "ir/reshape_groups.h"
#include "lower/passes.h"
#include "lower/rewrite.h"
#include "lower/tuning.h"

namespace ingot::lower {

namespace {

struct Scores {
  ValueId q, k;  // k as [.., K, T]
  double scale = 1;
  Dims batch;                  // of the scores
  std::vector<ValueId> masks;  // added to the scores
};

Dims batch_of(const Graph& g, ValueId v) {
  const Dims& dims = g.type(v).dims;
  return {dims.begin(), dims.end() - 2};
}

// `v` with batch axes that broadcast to `from`, as one whose batch axes broadcast to `to`: `from` merges neighbours of `to`.
std::optional<ValueId> split_batch(Graph& g, ValueId v, const Dims& from, const Dims& to) {
  const Dims dims = g.type(v).dims;
  if (from == to || dims.size() <= 2) return v;
  const size_t own = dims.size() - 2;
  const auto merged = ir::merged_axes(to, from);
  if (!merged || own > from.size()) return std::nullopt;
  Dims split(to.size(), Dim(1));
  for (size_t i = 0; i < own; ++i) {
    const size_t axis = from.size() - own + i;
    if (dims[i] == Dim(1)) continue;
    if (!(dims[i] == from[axis])) return std::nullopt;
    for (size_t part : (*merged)[axis]) split[part] = to[part];
  }
  split.insert(split.end(), dims.end() - 2, dims.end());
  return ir::reshape(Handle(&g, v), split).id();
}

// A cast from a half type, which changes no value.
bool widens(const Graph& g, const Node& n) {
  if (n.op != Op::cast || n.attributes.dtype("dtype") != ir::DType::f32) return false;
  const ir::DType from = g.type(n.in[0]).dtype;
  return from == ir::DType::f16 || from == ir::DType::bf16;
}

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

// `v` without the numbers that it is multiplied by, looking through views.
ValueId unscaled(Graph& g, ValueId v, double& scale, int depth = 0) {
  const Node n = maker(g, v);
  double number = 1;
  if (depth > 4) return v;
  if (auto x = with_number(g, v, Op::mul, &number); x && g.type(*x).dims == g.type(v).dims) {
    scale *= number;
    return unscaled(g, *x, scale, depth + 1);
  }
  if (auto x = with_number(g, v, Op::div, &number); x && number != 0 && g.type(*x).dims == g.type(v).dims) {
    scale /= number;
    return unscaled(g, *x, scale, depth + 1);
  }
  if ((n.op != Op::view || n.attributes.map("map").fill) && n.op != Op::reshape) return v;
  const ValueId x = unscaled(g, n.in[0], scale, depth + 1);
  return x == n.in[0] ? v : g.add(n.op, {x}, n.attributes, g.type(v));
}

// The matmul below a scale: matmul, or matmul times or divided by a number.
std::optional<Scores> scaled_product(Graph& g, ValueId v) {
  double scale = 1, number = 1;
  for (int i = 0; i < 4; ++i) {
    const Node& n = maker(g, v);
    if (n.op == Op::matmul) {
      const ValueId q = n.in[0], k = n.in[1];
      const ValueId bare_q = unscaled(g, q, scale), bare_k = unscaled(g, k, scale);
      return Scores{bare_q, bare_k, scale, batch_of(g, v), {}};
    }
    if (auto x = with_number(g, v, Op::mul, &number)) {
      scale *= number;
      v = *x;
    } else if (auto y = with_number(g, v, Op::div, &number)) {
      scale /= number;
      v = *y;
    } else if (widens(g, n)) {
      v = n.in[0];
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

bool same_matrix(const Graph& g, ValueId x, ValueId y) {
  const Dims &a = g.type(x).dims, &b = g.type(y).dims;
  return a.size() >= 2 && b.size() >= 2 && a.back() == b.back() && a[a.size() - 2] == b[b.size() - 2];
}

// True if `y` has the sizes of `x`, perhaps after axes of size 1: a mask of more axes adds these.
bool same_but_units(const Dims& x, const Dims& y) {
  return x.size() <= y.size() && std::equal(x.rbegin(), x.rend(), y.rbegin()) &&
         std::all_of(y.begin(), y.end() - static_cast<int64_t>(x.size()), [](const Dim& d) { return d == Dim(1); });
}

std::optional<Scores> scores_of(Graph& g, ValueId v, int depth = 0) {
  if (auto s = scaled_product(g, v)) return s;
  if (depth > 8) return std::nullopt;
  const Node n = maker(g, v);
  auto masked = [&](ValueId scores, ValueId mask) -> std::optional<Scores> {
    if (!same_but_units(g.type(scores).dims, g.type(v).dims)) return std::nullopt;
    auto s = scores_of(g, scores, depth + 1);
    if (!s) return std::nullopt;
    auto split = split_batch(g, mask, batch_of(g, v), s->batch);
    if (!split) return std::nullopt;
    s->masks.push_back(*split);
    return s;
  };
  if (widens(g, n)) return scores_of(g, n.in[0], depth + 1);
  if (n.op == Op::add) {
    for (size_t i : {size_t{0}, size_t{1}}) {
      if (auto s = masked(n.in[i], n.in[1 - i])) return s;
    }
  }
  if (n.op == Op::select) {
    // scores.masked_fill(mask, lowest): adding lowest to a score gives lowest again.
    for (size_t i : {size_t{1}, size_t{2}}) {
      auto fill = number_of(g, n.in[3 - i]);
      if (!fill || std::holds_alternative<Dim>(fill->value)) continue;
      double low = fill->to_double();
      if (!(low <= tuning::masked_score || (low <= tuning::masked_half_score && g.type(v).dtype == ir::DType::f16))) continue;
      Handle condition(&g, n.in[0]), zero = ir::literal(g, 0.0, g.type(v).dtype), lowest = ir::literal(g, low, g.type(v).dtype);
      if (auto s = masked(n.in[i], (i == 1 ? ir::select(condition, zero, lowest) : ir::select(condition, lowest, zero)).id())) return s;
    }
  }
  if ((n.op != Op::reshape && n.op != Op::view) || !same_matrix(g, v, n.in[0])) return std::nullopt;
  const Dims batch = batch_of(g, v), inner = batch_of(g, n.in[0]);
  if (n.op == Op::reshape) {
    // Finer axes merged: the scores keep these.
    return ir::merged_axes(inner, batch) ? scores_of(g, n.in[0], depth + 1) : std::nullopt;
  }
  const auto split = ir::split_map(g.type(n.in[0]).dims, g.type(v).dims);
  if (!split || !(*split == n.attributes.map("map"))) return std::nullopt;
  auto s = scores_of(g, n.in[0], depth + 1);
  if (!s || s->batch == batch) return s;
  if (!(s->batch == inner)) return std::nullopt;
  std::vector<ValueId*> operands{&s->q, &s->k};
  for (ValueId& m : s->masks) operands.push_back(&m);
  for (ValueId* operand : operands) {
    auto finer = split_batch(g, *operand, inner, batch);
    if (!finer) return std::nullopt;
    *operand = *finer;
  }
  s->batch = batch;
  return s;
}

// Attention whose mask repeats one over axes that are merged then: it has these axes, and the mask is read in place.
std::optional<ValueId> with_repeated_mask(Graph& g, const Node& node, const std::vector<ValueId>& in, const Dims& dims) {
  const ir::AttentionInputs of = ir::attention_inputs(node, in);
  if (of.mask == ir::none_id || of.filled != ir::none_id || !is(g, of.mask, Op::reshape)) return std::nullopt;
  const Node repeat = maker(g, maker(g, in[3]).in[0]);
  if (!only_broadcasts(g, repeat) || !same_matrix(g, in[3], repeat.out[0]) || !same_matrix(g, repeat.in[0], repeat.out[0])) return std::nullopt;
  const Dims batch(dims.begin(), dims.end() - 2), fine = batch_of(g, repeat.out[0]);
  if (!(batch_of(g, in[3]) == batch) || !ir::merged_axes(fine, batch)) return std::nullopt;
  std::vector<Handle> split;
  for (size_t i = 0; i < 3; ++i) {
    auto x = split_batch(g, in[i], batch, fine);
    if (!x) return std::nullopt;
    split.emplace_back(&g, *x);
  }
  Handle y = ir::attention(split[0], split[1], split[2], Handle(&g, repeat.in[0]), node.attributes.number("scale"), node.attributes.boolean("causal"));
  return ir::reshape(y, dims).id();
}

}  // namespace

void match_attention(Graph& g) {
  std::vector<int> uses = use_counts(g);
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    const Dims& dims = g.type(node.out[0]).dims;
    if (node.op == Op::attention) return with_repeated_mask(to, node, in, dims);
    // Probabilities with another reader are computed anyway.
    if (node.op != Op::matmul || uses[node.in[0]] != 1) return std::nullopt;
    const ir::DType t = to.type(in[1]).dtype;
    if (!is_float(t) || to.type(in[0]).dtype != t) return std::nullopt;
    // In half types softmax computes in float32.
    const Node& rounded = maker(to, in[0]);
    const bool narrows = rounded.op == Op::cast && to.type(rounded.in[0]).dtype == ir::DType::f32;
    if (narrows && uses[maker(g, node.in[0]).in[0]] != 1) return std::nullopt;
    auto argument = softmax_argument(to, narrows ? rounded.in[0] : in[0]);
    if (!argument) return std::nullopt;
    auto s = scores_of(to, *argument);
    if (!s || to.type(s->q).dtype != t) return std::nullopt;
    auto v = split_batch(to, in[1], batch_of(to, in[0]), s->batch);
    if (!v) return std::nullopt;
    std::optional<Handle> mask;
    for (ValueId m : s->masks) mask = mask ? *mask + Handle(&to, m) : Handle(&to, m);
    if (mask && mask->dtype() != t) return std::nullopt;
    Handle k = ir::transpose(Handle(&to, s->k), -1, -2);
    return ir::reshape(ir::attention(Handle(&to, s->q), k, Handle(&to, *v), mask, s->scale, false), dims).id();
  });
}

}  // namespace ingot::lower
