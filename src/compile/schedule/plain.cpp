// Kernels without a body, described by their definitions alone.
#include "base/error.h"
#include "compile/schedule/scheduler.h"
#include "kernels/definition.h"
#include "kernels/run/kernel.h"

namespace ingot::compile {

using namespace ir;

namespace {

// Gives an operand that broadcasts the layout of the result's dims.
BufferView broadcast_to(BufferView place, const Dims& dims) {
  StridedLayout& w = place.layout;
  for (size_t i = 0; i < w.dims.size(); ++i) {
    if (w.dims[i] == Dim(1)) w.strides[i] = 0;
  }
  w.strides.insert(w.strides.begin(), dims.size() - w.dims.size(), Dim(0));
  w.dims = dims;
  return place;
}

}  // namespace

void Scheduler::plain(NodeId n) {
  const Node& node = g_.nodes[n];
  const kernels::Definition* kernel = kernels::definition_of(node.op);
  if (kernel == nullptr || kernel->plain == nullptr) fail(Code::unsupported, "there is no kernel for {}", name_of(node.op));
  const kernels::PlainStep step = kernel->plain(g_, node);
  if (step.first > 0) root(s_.part_root.at({n, 0}));  // copies the base into the result
  std::vector<BufferView> views;
  for (size_t i = step.first; i < node.in.size(); ++i) {
    auto place = s_.require(node.in[i]);
    if (!place) return need(place.missing());
    const size_t k = views.size();
    views.push_back(k < step.read_as.size() && step.read_as[k] ? broadcast_to(std::move(*place), *step.read_as[k]) : std::move(*place));
  }
  for (ValueId v : node.out) views.push_back(s_.places[v]);
  for (const BufferView& p : views) {
    if (p.layout.dims.size() > kernels::max_rank) fail(Code::unsupported, "a {} of {} axes; {} are possible", name_of(node.op), p.layout.dims.size(), kernels::max_rank);
  }
  const backend::Plain site{kernel->name, step.constants};
  StepOperands operands{std::move(views), kernel->roles(node.in.size() - step.first, node.out.size())};
  Decision d = choose({site, nullptr, described(operands)});
  if (!d.choice) fail(Code::unsupported, "no backend has a kernel for {}", name_of(node.op));
  push(std::move(*d.choice), std::move(operands), static_cast<uint32_t>(node.out.size()), std::string(name_of(node.op)), node.origin);
  for (ValueId v : node.out) out_.steps.back().results.push_back(itself(v));
}

}  // namespace ingot::compile
