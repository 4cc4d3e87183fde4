// Depthwise convolutions read their windows, padding included, through a map of the stored input. A cast from a half
// type before the padding is part of the step.
#include <algorithm>

#include "compile/schedule/scheduler.h"

namespace ingot::compile {

using namespace ir;

void Scheduler::depthwise_conv(WrittenBody written) {
  const Node& node = g_.producer(written.anchor);
  const Node& product = g_.producer(node.in[0]);
  const size_t side = s_.depthwise.at(written.anchor);
  const Dims& dims = g_.type(node.in[0]).dims;
  std::optional<Followed> windows = s_.follow(product.in[side], true);
  auto kernel = s_.require(product.in[1 - side]);
  if (!kernel) return need(kernel.missing());
  BufferView with = std::move(*kernel);
  // Indices: those of the result, then the summed ones.
  const std::vector<int64_t> summed = node.attributes.integers("axes");
  std::vector<size_t> order;
  for (bool sum : {false, true}) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if ((std::count(summed.begin(), summed.end(), static_cast<int64_t>(d)) != 0) == sum) order.push_back(d);
    }
  }
  StridedLayout b{{}, {}, with.layout.offset};
  std::vector<uint32_t> position(dims.size());
  backend::DepthwiseAttributes site{g_.type(node.in[0]).dtype};
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
  Decision d;
  StepOperands operands;
  if (windows) {
    site.map.axes = windows->map.axes;
    for (AffineMap::Axis& axis : site.map.axes) {
      for (AffineMap::Term& t : axis.terms) t.axis = position[t.axis];
      std::sort(axis.terms.begin(), axis.terms.end(), [](const auto& x, const auto& y) { return x.axis < y.axis; });
    }
    operands.add(kernels::Role::a, std::move(windows->place));
    operands.add(kernels::Role::b, std::move(with));
    operands.add_body(written);
    d = choose({std::move(site), &written.body, described(operands)});
  }
  if (const ValueId copy = s_.skipped_copy(product.in[side]); copy != none_id && d.copies_image()) return need(copy);
  // What the graph computes or is given has another order than a weight that prepare has laid out: a copy of it may do.
  if (const ValueId numbers = product.in[1 - side]; !d.choice && windows && !s_.stored[numbers] && is_view(g_.producer(numbers).op)) return need(numbers);
  if (!d.choice) {
    out_.missing.not_depthwise.insert(written.anchor);
    return;
  }
  if (d.copies_result() && written.contiguous != none_id) return need(written.contiguous);
  const auto writes = static_cast<uint32_t>(written.body.stores.size());
  push(std::move(*d.choice), std::move(operands), writes, std::move(written.label), node.origin);
}

}  // namespace ingot::compile
