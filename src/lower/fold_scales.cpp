// A matmul or a depthwise convolution, with or without a bias, whose columns are multiplied by numbers made of weights (batch normalisation, layer scale), becomes
// one with scaled weights. Prepare scales them. Two numbers that are added to each column one after the other become their sum. Where rows are many and their columns are multiplied by numbers
// from data first (the gate of a squeeze-and-excitation block, for one image), the few numbers of the weight are multiplied instead.
#include <algorithm>

#include "lower/passes.h"
#include "lower/rewrite.h"
#include "lower/tuning.h"

namespace ingot::lower {

namespace {

// One number for each column: [.., 1, N] or [N].
bool is_per_column(const Dims& dims, const Dim& columns) {
  if (dims.empty() || !(dims.back() == columns)) return false;
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    if (!(dims[i] == Dim(1))) return false;
  }
  return true;
}

// A sum of windows times a weight: the weight is multiplied where the numbers make it no larger.
std::optional<Handle> scaled_sum(Graph& g, WeightValues& weights, const Node& sum, ValueId by) {
  const Node times = maker(g, sum.in[0]);
  const std::vector<int64_t> axes = sum.attributes.integers("axes");
  if (times.op != Op::mul || sum.attributes.string("kind") != "sum" || sum.attributes.boolean("keep") || axes.empty() || !weights.contain(g, by)) return std::nullopt;
  const Dims all = g.type(sum.in[0]).dims, scale = g.type(by).dims;
  const size_t kept = all.size() - axes.size();
  if (scale.size() > kept || size_of(g.type(by).dtype) < 4) return std::nullopt;
  Dims wide;  // the numbers, with the axes that are summed
  for (size_t d = 0, k = 0; d < all.size(); ++d) {
    const bool summed = std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)) != 0;
    const size_t lead = kept - scale.size();
    wide.push_back(summed || k < lead ? Dim(1) : scale[k - lead]);
    k += !summed;
  }
  for (size_t i : {size_t{0}, size_t{1}}) {
    const ValueId w = times.in[i], windows = times.in[1 - i];
    if (!weights.contain(g, w) || weights.contain(g, windows)) continue;
    const Dims of = g.type(w).dims;
    const size_t lead = all.size() - of.size();
    bool fits = true;
    for (size_t d = 0; d < all.size(); ++d) fits = fits && (wide[d] == Dim(1) || (d >= lead && of[d - lead] == wide[d]));
    if (!fits) continue;
    return ir::sum(Handle(&g, windows) * (Handle(&g, w) * ir::reshape(Handle(&g, by), wide)), ir::Axes(axes.begin(), axes.end()));
  }
  return std::nullopt;
}

// [K, N] times a number for each column. After a convolution's reshape of a permuted weight, the permuted weight is scaled: prepare does both in one step.
Handle scaled_columns(Graph& g, ValueId weight, const Handle& by) {
  const Node shaped = maker(g, weight);
  if (shaped.op == Op::reshape && !g.type(shaped.in[0]).dims.empty() && g.type(shaped.in[0]).dims.back() == g.type(weight).dims.back()) {
    return ir::reshape(Handle(&g, shaped.in[0]) * by, Dims(g.type(weight).dims));
  }
  return Handle(&g, weight) * by;
}

std::optional<Handle> scaled(Graph& g, WeightValues& weights, ValueId product, ValueId by) {
  const Node made = maker(g, product);
  if (made.op == Op::reduce) return scaled_sum(g, weights, made, by);
  if (made.op != Op::matmul) return std::nullopt;
  const ir::Type weight = g.type(made.in[1]), scale = g.type(by);
  // Half types would be rounded once more.
  if (size_of(weight.dtype) < 4 || weight.dims.size() != 2 || !(scale.dtype == weight.dtype) || !is_per_column(scale.dims, weight.dims[1])) return std::nullopt;
  if (!weights.contain(g, made.in[1]) || !weights.contain(g, by)) return std::nullopt;
  return ir::matmul(Handle(&g, made.in[0]), scaled_columns(g, made.in[1], ir::reshape(Handle(&g, by), {weight.dims[1]})), made.attributes);
}

// True for a view or reshape whose rows, the elements along the last axis, are rows of its operand.
bool keeps_rows(const Graph& g, const Node& n) {
  if (n.op != Op::reshape && n.op != Op::view) return false;
  const Dims &from = g.type(n.in[0]).dims, &to = g.type(n.out[0]).dims;
  if (from.empty() || to.empty() || !(from.back() == to.back())) return false;
  if (n.op == Op::reshape) return true;
  const ir::AffineMap& map = n.attributes.map("map");
  if (map.fill) return false;
  for (size_t a = 0; a < map.axes.size(); ++a) {
    const bool last = a + 1 == map.axes.size();
    const auto& terms = map.axes[a].terms;
    const bool along = std::any_of(terms.begin(), terms.end(), [&](const auto& t) { return t.axis + 1 == to.size(); });
    if (along != last || (last && (terms.size() != 1 || terms[0].coefficient != 1 || !(map.axes[a].offset == Dim(0))))) return false;
  }
  return true;
}

// (x * gate) W with one gate for all rows: x (gate^T * W). In float32, as half types would round the weight once more. `path`: from A to the product with the gate.
std::optional<Handle> gated_weight(Graph& g, WeightValues& weights, const Node& product, std::vector<Node> path) {
  const ir::Type a = g.type(product.in[0]), weight = g.type(product.in[1]);
  if (a.dtype != ir::DType::f32 || !(weight.dtype == a.dtype) || weight.dims.size() != 2 || !weights.contain(g, product.in[1])) return std::nullopt;
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < a.dims.size(); ++d) rows *= a.dims[d].constant().value_or(0);
  const std::optional<int64_t> columns = weight.dims[1].constant();
  if (!columns || rows < tuning::min_rows_of_column * *columns) return std::nullopt;
  const Node times = path.back();
  path.pop_back();
  for (size_t i : {size_t{0}, size_t{1}}) {
    const ValueId x = times.in[i], gate = times.in[1 - i];
    if (!(g.type(x).dims == g.type(times.out[0]).dims) || !is_per_column(g.type(gate).dims, a.dims.back()) || weights.contain(g, gate)) continue;
    Handle from(&g, x);
    for (; !path.empty(); path.pop_back()) {
      const Node& n = path.back();
      from = n.op == Op::view ? ir::view(from, n.attributes.map("map")) : ir::reshape(from, Dims(g.type(n.out[0]).dims));
    }
    const Handle columns_first = ir::transpose(Handle(&g, product.in[1]), 0, 1) * ir::reshape(Handle(&g, gate), {a.dims.back()});  // K contiguous, as GEMMs like it
    return ir::matmul(from, ir::transpose(columns_first, 0, 1), product.attributes);
  }
  return std::nullopt;
}

// A's maker and those before it, to a product of elements; empty if there is none, or if somebody else reads one of them.
std::vector<Node> path_to_product(const Graph& g, const std::vector<int>& uses, ValueId v) {
  std::vector<Node> path;
  while (true) {
    path.push_back(maker(g, v));
    if (!uses.empty() && uses[v] != 1) return {};
    if (path.back().op == Op::mul) return path;
    if (!keeps_rows(g, path.back())) return {};
    v = path.back().in[0];
  }
}

// (x + a) + b with a and b made of weights: x + (a + b). Epilogues have one bias.
std::optional<Handle> joined_biases(Graph& g, WeightValues& weights, const Node& sum, ValueId second) {
  const ir::Type type = g.type(sum.out[0]);
  auto fits = [&](ValueId bias) { return is_per_column(g.type(bias).dims, type.dims.back()) && g.type(bias).dtype == type.dtype && weights.contain(g, bias); };
  if (sum.op != Op::add || !ir::is_float(type.dtype) || size_of(type.dtype) < 4 || type.dims.empty() || !fits(second)) return std::nullopt;
  for (size_t j : {size_t{0}, size_t{1}}) {
    const ValueId x = sum.in[j], first = sum.in[1 - j];
    if (!(g.type(x).dims == type.dims) || !fits(first) || weights.contain(g, x)) continue;
    const Handle bias = Handle(&g, first) + Handle(&g, second);  // a new node: `sum` may have moved
    return Handle(&g, x) + bias;
  }
  return std::nullopt;
}

void scale_columns(Graph& g) {
  WeightValues weights(g, WeightValues::Through::maps);
  const std::vector<int> uses = use_counts(g);
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op == Op::add) {
      for (size_t i : {size_t{0}, size_t{1}}) {
        if (uses[node.in[i]] != 1 || !(to.type(in[i]).dims == g.type(node.out[0]).dims)) continue;
        if (auto y = joined_biases(to, weights, maker(to, in[i]), in[1 - i])) return y->id();
      }
      return std::nullopt;
    }
    if (node.op != Op::mul) return std::nullopt;
    const Dims& dims = g.type(node.out[0]).dims;
    for (size_t i : {size_t{0}, size_t{1}}) {
      const ValueId by = in[1 - i];
      if (uses[node.in[i]] != 1 || !(to.type(in[i]).dims == dims)) continue;  // or the numbers have more axes
      if (auto y = scaled(to, weights, in[i], by)) return y->id();
      const Node &sum = maker(g, node.in[i]), made = maker(to, in[i]);
      if (sum.op != Op::add || made.op != Op::add) continue;
      for (size_t j : {size_t{0}, size_t{1}}) {
        const ValueId bias = made.in[1 - j];
        if (uses[sum.in[j]] != 1 || !(to.type(made.in[j]).dims == dims) || !is_per_column(to.type(bias).dims, dims.back()) || !weights.contain(to, bias)) continue;
        if (auto y = scaled(to, weights, made.in[j], by)) return (*y + Handle(&to, bias) * Handle(&to, by)).id();
      }
    }
    return std::nullopt;
  });
}

void scale_rows(Graph& g) {
  WeightValues weights(g, WeightValues::Through::maps);
  const std::vector<int> uses = use_counts(g);
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op != Op::matmul) return std::nullopt;
    std::vector<Node> path = path_to_product(to, {}, in[0]);
    if (path.empty() || path_to_product(g, uses, node.in[0]).size() != path.size()) return std::nullopt;
    Node product = node;
    product.in = in;
    auto y = gated_weight(to, weights, product, std::move(path));
    return y ? std::optional(y->id()) : std::nullopt;
  });
}

}  // namespace

void fold_scales(Graph& g) {
  scale_columns(g);
  scale_rows(g);
}

}  // namespace ingot::lower
