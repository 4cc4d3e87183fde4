// A matmul, with or without a bias, whose columns are multiplied by numbers made of weights (batch normalisation, layer scale), becomes a matmul with scaled
// weights. Prepare scales them.
#include <algorithm>

#include "lower/passes.h"
#include "lower/rewrite.h"

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

std::optional<Handle> scaled(Graph& g, WeightValues& weights, ValueId product, ValueId by) {
  const Node made = maker(g, product);
  if (made.op != Op::matmul) return std::nullopt;
  const ir::Type weight = g.type(made.in[1]), scale = g.type(by);
  // Half types would be rounded once more.
  if (size_of(weight.dtype) < 4 || weight.dims.size() != 2 || !(scale.dtype == weight.dtype) || !is_per_column(scale.dims, weight.dims[1])) return std::nullopt;
  if (!weights.contain(g, made.in[1]) || !weights.contain(g, by)) return std::nullopt;
  return ir::matmul(Handle(&g, made.in[0]), Handle(&g, made.in[1]) * ir::reshape(Handle(&g, by), {weight.dims[1]}));
}

}  // namespace

void fold_scales(Graph& g) {
  WeightValues weights(g, WeightValues::Through::maps);
  const std::vector<int> uses = use_counts(g);
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
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

}  // namespace ingot::lower
