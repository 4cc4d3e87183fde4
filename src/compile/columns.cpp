#include "compile/columns.h"

#include <algorithm>

#include "compile/buffer_view.h"

namespace ingot::compile {

using namespace ir;

namespace {

// Where a weight's elements are under views; nullopt for what is no view of a weight.
std::optional<StridedLayout> layout_on_weight(const Graph& g, ValueId v) {
  const Node& n = g.producer(v);
  if (n.op == Op::weight) return row_major(g.type(v).dims);
  if (n.op != Op::view && n.op != Op::reshape) return std::nullopt;
  auto w = layout_on_weight(g, n.in[0]);
  if (!w) return std::nullopt;
  return through(*w, g, n);
}

}  // namespace

bool is_one_row(const Dims& dims) {
  return !dims.empty() && std::all_of(dims.begin(), dims.end() - 1, [](const Dim& d) { return d == Dim(1); });
}

std::optional<ValueId> columns_apart(const Graph& g, const Node& product, const backend::Emitter& emitter) {
  if (product.op != Op::matmul) return std::nullopt;
  // B is the join's transpose: layers store [N, K].
  const Node& turned = g.producer(product.in[1]);
  if (turned.op != Op::view || g.type(product.in[1]).dims.size() != 2 || g.type(turned.in[0]).dims.size() != 2) return std::nullopt;
  const AffineMap& map = turned.attributes.map("map");
  if (!is_bijective(map, g.type(turned.in[0]).dims) || map.axes[0].terms.empty() || map.axes[0].terms[0].axis != 1) return std::nullopt;
  const Node& join = g.producer(turned.in[0]);
  if (join.op != Op::concat || join.attributes.integer("axis") != 0) return std::nullopt;
  Dims columns;
  std::optional<Dim> step;
  for (ValueId part : join.in) {
    auto w = layout_on_weight(g, part);
    if (!w || !(w->strides[1] == Dim(1)) || (step && !(w->strides[0] == *step))) return std::nullopt;
    step = w->strides[0];
    columns.push_back(w->dims[0]);
  }
  if (!emitter.takes_columns_apart(g.type(product.in[0]).dtype, is_one_row(g.type(product.out[0]).dims), g.type(product.in[1]).dims[0], columns)) return std::nullopt;
  return join.out[0];
}

}  // namespace ingot::compile
