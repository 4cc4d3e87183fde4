// Adds zero columns to convolutions whose number of output channels keeps a kernel of the backend from reading their input in place: an image's three, a detector's classes.
#include <algorithm>
#include <unordered_map>

#include "compile/passes/pad_channels.h"
#include "compile/passes/passes.h"
#include "ir/replace.h"

namespace ingot::compile {

using namespace ir;

namespace {

// How many output channels the convolution needs so that a kernel of the backend reads its input in place; nullopt if it has enough, or if none helps.
std::optional<int64_t> wanted_columns(const Graph& g, const Node& node, const Backend& backend) {
  if (node.op != Op::matmul || !rows_are_windows(g, node)) return std::nullopt;
  const auto columns = g.type(node.out[0]).dims.back().constant();
  // Kernels that read windows in place have one B for all rows; for groups there are others.
  const Dims& b = g.type(node.in[1]).dims;
  if (!std::all_of(b.begin(), b.end() - 2, [](const Dim& d) { return d == Dim(1); })) return std::nullopt;
  if (!columns || *columns == padded_channels(*columns) || *columns == 0) return std::nullopt;
  auto count_offers = [&](int64_t n) {
    backend::Gemm sketch = sketch_of(g, node);
    for (StridedLayout& part : sketch.b) part.dims.back() = n;
    return backend.offers(site_of(std::move(sketch))).offers.size();
  };
  const int64_t more = padded_channels(*columns);
  return count_offers(more) > count_offers(*columns) ? std::optional(more) : std::nullopt;
}

}  // namespace

void pad_output_channels(Graph& g, const Backend& backend) {
  std::unordered_map<ValueId, int64_t> wanted;  // result -> its columns
  for (const Node& node : g.nodes) {
    if (const auto columns = wanted_columns(g, node, backend)) wanted.emplace(node.out[0], *columns);
  }
  if (wanted.empty()) return;
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) -> std::optional<ValueId> {
    const auto found = node.out.empty() ? wanted.end() : wanted.find(node.out[0]);
    if (found == wanted.end()) return std::nullopt;
    const Handle b(&to, in[1]);
    const Dim n = b.dims().back();
    const std::vector<ValueId> operands{in[0], with_zeros(b, b.dims().size() - 1, found->second - n.value()).id()};
    const Handle y(&to, to.add(node.op, operands, node.attributes, infer(to, node.op, operands, node.attributes)[0]));
    return slice(y, -1, Dim(0), n, 1).id();
  });
}

}  // namespace ingot::compile
