// Sums over windows that a kernel of the backend does (a depthwise convolution): it reads the windows, padding included, through a map of what is
// stored, and finishes with a body, as products do.
#include "compile/function.h"

#include <algorithm>

#include "compile/writer.h"

namespace ingot::compile {

using namespace ir;

namespace {

// Windows that may overlap: somewhere a step along either of two axes of the view is one along the same axis of what it views.
bool has_windows(const Graph& g, ValueId v) {
  for (const Node* n = &g.producer(v); n->op == Op::view; n = &g.producer(n->in[0])) {
    for (const AffineMap::Axis& axis : n->attributes.map("map").axes) {
      if (axis.terms.size() > 1) return true;
    }
  }
  return false;
}

bool is_weight(const Graph& g, ValueId v) {
  while (is_plain_view(g, v)) v = g.producer(v).in[0];
  return g.producer(v).op == Op::weight;
}

}  // namespace

void FunctionCompiler::match_depthwise_convs() {
  for (const Node& node : g_.nodes) {
    if (node.op != Op::reduce || node.attributes.string("kind") != "sum" || node.attributes.boolean("keep") || node.attributes.integers("axes").empty()) continue;
    const ValueId v = node.in[0];
    const Node& product = g_.producer(v);
    if (product.op != Op::mul || uses_[v] != 1 || !emitter_.has_depthwise_conv(g_.type(v).dtype)) continue;
    for (size_t i : {size_t{0}, size_t{1}}) {
      const ValueId windows = product.in[i];
      if (g_.type(windows).dims == g_.type(v).dims && has_windows(g_, windows) && is_weight(g_, product.in[1 - i])) depthwise_convs_[node.out[0]] = i;
    }
  }
}

void FunctionCompiler::emit_depthwise_conv(WrittenBody written) {
  const Node& node = g_.producer(written.anchor);
  const Node& product = g_.producer(node.in[0]);
  const size_t side = depthwise_convs_.at(written.anchor);
  const Dims& dims = g_.type(node.in[0]).dims;
  std::optional<Followed> windows = follow(product.in[side]);
  BufferView with = require(product.in[1 - side]);
  // Indices: those of the result, then those that are summed.
  const std::vector<int64_t> summed = node.attributes.integers("axes");
  std::vector<size_t> order;
  for (bool sum : {false, true}) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if ((std::count(summed.begin(), summed.end(), static_cast<int64_t>(d)) != 0) == sum) order.push_back(d);
    }
  }
  StridedLayout b{{}, {}, with.layout.offset};
  std::vector<uint32_t> position(dims.size());
  backend::DepthwiseConv site;
  site.kept = dims.size() - summed.size();
  const size_t lead = dims.size() - with.layout.dims.size();
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t d = order[i];
    position[d] = static_cast<uint32_t>(i);
    site.map.dims.push_back(dims[d]);
    const bool repeats = d < lead || with.layout.dims[d - lead] == Dim(1);
    b.dims.push_back(repeats ? Dim(1) : dims[d]);
    b.strides.push_back(repeats ? Dim(0) : with.layout.strides[d - lead]);
  }
  with.layout = std::move(b);
  std::optional<backend::EmittedStep> step;
  if (windows) {
    site.map.axes = windows->map.axes;
    for (AffineMap::Axis& axis : site.map.axes) {
      for (AffineMap::Term& t : axis.terms) t.axis = position[t.axis];
      std::sort(axis.terms.begin(), axis.terms.end(), [](const auto& x, const auto& y) { return x.axis < y.axis; });
    }
    site.a = layouts_of({windows->place})[0];
    site.b = layouts_of({with})[0];
    step = emitter_.depthwise_conv(site, written.body, layouts_of(written.operands));
  }
  if (!step) {
    depthwise_convs_.erase(written.anchor);
    declined_ = true;
    return;
  }
  std::vector<BufferView> operands{std::move(windows->place), std::move(with)};
  const auto writes = static_cast<uint32_t>(written.body.stores.size());
  operands.insert(operands.end(), written.operands.begin(), written.operands.end());
  push(step_of(std::move(*step), std::move(written.label), writes, operands), node.origin);
}

}  // namespace ingot::compile
