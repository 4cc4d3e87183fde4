// Adds zero columns to convolutions whose number of output channels keeps a kernel of the backend from reading their input in place: an image's three, a detector's classes.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "compile/passes/pad_channels.h"
#include "compile/passes/passes.h"
#include "ir/replace.h"

namespace ingot::compile {

using namespace ir;

namespace {

// The part of a copy of the image that is this convolution's; 0: compile makes none. A copy for kernels that wish for neighbouring channels is a concatenation of one part.
double image_copies(const Graph& g, const std::vector<std::vector<NodeId>>& users, const Node& node) {
  ValueId v = node.in[0];
  while (is_view(g.producer(v).op)) v = g.producer(v).in[0];
  const Node& copy = g.producer(v);
  return copy.op == Op::concat && copy.in.size() == 1 ? 1 / static_cast<double>(users[v].size()) : 0;
}

// The windows as a map of the value that kernels read: without views, padding and a copy, which they may skip.
AffineMap windows_of_image(const Graph& g, const Node& node) {
  const Node& windows = g.producer(g.producer(node.in[0]).in[0]);
  AffineMap map = windows.attributes.map("map");
  for (ValueId v = windows.in[0];;) {
    const Node& from = g.producer(v);
    if (from.op != Op::view && !(from.op == Op::concat && from.in.size() == 1)) return map;
    if (from.op == Op::view) {
      AffineMap inner = from.attributes.map("map");
      inner.fill.reset();
      map = compose(map, inner);
    }
    v = from.in[0];
  }
}

// How many indices of the windows are those of rows: the others are K.
size_t rows_in(const AffineMap& windows, const Dim& k) {
  size_t rank = windows.dims.size();
  for (Dim inner = 1; rank > 0 && !(inner == k);) inner *= windows.dims[--rank];
  return rank;
}

// The least cost of the offers whose implementations are not among the others: one that takes any number of columns decides nothing. Infinite: there are none.
double least_of_others(const backend::Offers& offers, const backend::Offers& others) {
  double least = std::numeric_limits<double>::infinity();
  for (const backend::Offer& o : offers.offers) {
    const bool is_common = std::any_of(others.offers.begin(), others.offers.end(), [&](const backend::Offer& x) { return x.implementation == o.implementation; });
    if (!is_common) least = std::min(least, o.cost);
  }
  return least;
}

// How many output channels the convolution needs so that a kernel of the backend reads its input in place; nullopt if it has enough, or if none helps. With more columns a step drops what was added,
// and the image may be copied; a kernel for few columns does both itself.
std::optional<int64_t> wanted_columns(const Graph& g, const std::vector<std::vector<NodeId>>& users, const Node& node, const Backend& backend) {
  if (node.op != Op::matmul || !rows_are_windows(g, node)) return std::nullopt;
  const auto columns = g.type(node.out[0]).dims.back().constant();
  // Kernels that read windows in place have one B for all rows; for groups there are others.
  const Dims& b = g.type(node.in[1]).dims;
  if (!std::all_of(b.begin(), b.end() - 2, [](const Dim& d) { return d == Dim(1); })) return std::nullopt;
  if (!columns || *columns == padded_channels(*columns) || *columns == 0) return std::nullopt;
  auto offers_with = [&](int64_t n) {
    backend::Gemm sketch = sketch_of(g, node);
    for (StridedLayout& part : sketch.b) part.dims.back() = n;
    sketch.map = windows_of_image(g, node);
    sketch.m_rank = rows_in(*sketch.map, g.type(node.in[0]).dims.back());
    return backend.offers(site_of(std::move(sketch)));
  };
  const int64_t more = padded_channels(*columns);
  const backend::Offers narrow = offers_with(*columns), wide = offers_with(more);
  const double steps = 1 + image_copies(g, users, node);
  return least_of_others(wide, narrow) + steps * backend.settings.machine.launch < least_of_others(narrow, wide) ? std::optional(more) : std::nullopt;
}

}  // namespace

void pad_output_channels(Graph& g, const Backend& backend) {
  std::unordered_map<ValueId, int64_t> wanted;  // result -> its columns
  const auto users = g.users();
  for (const Node& node : g.nodes) {
    if (const auto columns = wanted_columns(g, users, node, backend)) wanted.emplace(node.out[0], *columns);
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
