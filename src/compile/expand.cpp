#include "compile/expand.h"

#include <algorithm>

#include "compile/buffer_view.h"
#include "ir/compose.h"
#include "ir/replace.h"
#include "kernels/definition.h"

namespace ingot::compile {

using namespace ir;

namespace {

bool is_lacking(const Graph& g, const Node& node, const Backend& backend) {
  if (node.op != Op::attention) return false;  // other kernels are asked for when they are scheduled
  backend::Attention sketch{g.type(node.in[0]).dtype};
  sketch.d = g.type(node.in[0]).dims.back();
  sketch.e = g.type(node.in[2]).dims.back();
  return !backend.has_offer({std::move(sketch)});
}

// True if A is a view with overlapping windows.
bool has_windows(const Graph& g, const Node& matmul) {
  const Node& rows = g.producer(matmul.in[0]);
  if (rows.op != Op::reshape) return false;
  const Node& windows = g.producer(rows.in[0]);
  return windows.op == Op::view && !windows.attributes.map("map").fill && !is_bijective(windows.attributes.map("map"), g.type(windows.in[0]).dims);
}

// How many output channels a convolution needs so that a kernel of the backend reads its input in place; nullopt if it has enough, or if none helps.
std::optional<int64_t> wanted_columns(const Graph& g, const Node& node, const Backend& backend) {
  constexpr int64_t eight = 8;
  if (node.op != Op::matmul || !has_windows(g, node)) return std::nullopt;
  const auto columns = g.type(node.out[0]).dims.back().constant();
  // Kernels that read windows in place have one B for all rows; for groups there are others.
  const Dims& b = g.type(node.in[1]).dims;
  if (!std::all_of(b.begin(), b.end() - 2, [](const Dim& d) { return d == Dim(1); })) return std::nullopt;
  if (!columns || *columns % eight == 0 || *columns == 0) return std::nullopt;
  auto count = [&](int64_t n) {
    backend::Gemm sketch = sketch_of(g, node);
    for (StridedLayout& b : sketch.b) b.dims.back() = n;
    return backend.offers({std::move(sketch)}).offers.size();
  };
  const int64_t more = (*columns + eight - 1) / eight * eight;
  return count(more) > count(*columns) ? std::optional(more) : std::nullopt;
}

}  // namespace

Graph widen_results(Graph g, const Backend& backend) {
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) -> std::optional<ValueId> {
    const auto columns = wanted_columns(g, node, backend);
    if (!columns) return std::nullopt;
    const Handle a(&to, in[0]), b(&to, in[1]);
    const Dim n = b.dims().back();
    Dims none(b.dims().size(), Dim(0)), more = none;
    more.back() = Dim(*columns) - n;
    const std::vector<ValueId> operands{in[0], pad(b, none, more, 0).id()};
    const Handle y(&to, to.add(node.op, operands, node.attributes, infer(to, node.op, operands, node.attributes)[0]));
    return slice(y, -1, Dim(0), n, 1).id();
  });
  return g;
}

Graph expand_lacking(Graph g, const Backend& backend) {
  auto goes = [&](const Node& n) { return is_lacking(g, n, backend); };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), goes)) return g;
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) {
    return goes(node) ? std::optional(kernels::definition_of(node.op)->expand(to, node, in)) : std::nullopt;
  });
  return g;
}

}  // namespace ingot::compile
