// A product's columns times numbers made of weights, as batch normalisation has them, is a product with other weights: prepare multiplies.
#include <algorithm>

#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

// One number a column: [.., 1, N] or [N].
bool is_per_column(const Dims& dims, const Dim& columns) {
  if (dims.empty() || !(dims.back() == columns)) return false;
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    if (!(dims[i] == Dim(1))) return false;
  }
  return true;
}

// Computed from weights and literals alone.
bool is_prepared(const Graph& g, ValueId v, int depth = 0) {
  const Node& n = maker(g, v);
  if (n.op == Op::weight || n.op == Op::literal) return true;
  const bool simple = is_map(n.op) || n.op == Op::view || n.op == Op::reshape || n.op == Op::join;
  return simple && depth < 24 && std::all_of(n.in.begin(), n.in.end(), [&](ValueId x) { return is_prepared(g, x, depth + 1); });
}

}  // namespace

void scales(Graph& g) {
  const std::vector<int> uses = use_counts(g);
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op != Op::mul) return std::nullopt;
    for (size_t i : {size_t{0}, size_t{1}}) {
      const Node made = maker(to, in[i]);
      if (made.op != Op::matmul || uses[node.in[i]] != 1) continue;
      const ir::Type weight = to.type(made.in[1]), scale = to.type(in[1 - i]);
      if (!(to.type(in[i]).dims == g.type(node.out[0]).dims)) continue;  // the numbers have more axes
      // Halves would be rounded once more.
      if (size_of(weight.dtype) < 4 || weight.dims.size() != 2 || !(scale.dtype == weight.dtype) || !is_per_column(scale.dims, weight.dims[1])) continue;
      if (!is_prepared(to, made.in[1]) || !is_prepared(to, in[1 - i])) continue;
      Handle scaled = Handle(&to, made.in[1]) * ir::reshape(Handle(&to, in[1 - i]), {weight.dims[1]});
      return ir::matmul(Handle(&to, made.in[0]), scaled).id();
    }
    return std::nullopt;
  });
}

}  // namespace ingot::lower
