// Kernels that the user registered. All their operands are row-major.
#include <algorithm>

#include "base/error.h"
#include "compile/schedule/scheduler.h"

namespace ingot::compile {

using namespace ir;

namespace {

bool is_row_major(const StridedLayout& x) {
  const StridedLayout plain = row_major(x.dims);
  for (size_t d = 0; d < x.dims.size(); ++d) {
    if (!(x.dims[d] == Dim(1)) && !(x.strides[d] == plain.strides[d])) return false;
  }
  return true;
}

}  // namespace

void Scheduler::external(NodeId n) {
  const Node& node = g_.nodes[n];
  const kernels::External kernel = kernels::external_of(node);
  auto is_written = [&](size_t i) { return std::find(kernel.written.begin(), kernel.written.end(), static_cast<int64_t>(i)) != kernel.written.end(); };
  backend::External site{&kernel, std::vector<uint32_t>(node.in.size()), static_cast<uint32_t>(node.out.size() - kernel.written.size())};
  StepOperands operands;
  for (const bool written : {false, true}) {  // an operand that is overwritten may share the memory of its new value, if no other operand does
    const kernels::Role role = written && kernel.written.size() == 1 ? kernels::Role::overwritten : kernels::Role::input;
    for (size_t i = 0; i < node.in.size(); ++i) {
      if (is_written(i) != written) continue;
      auto place = s_.require(node.in[i]);
      if (!place) return need(place.missing());
      if (!is_row_major(place->layout)) return need(node.in[i]);
      site.inputs[i] = static_cast<uint32_t>(operands.views.size());
      operands.add(role, std::move(*place));
    }
  }
  for (ValueId v : node.out) operands.add(kernels::Role::output, s_.places[v]);
  Decision d = choose({std::move(site), nullptr, described(operands)});
  if (!d.choice) {
    throw Error(Code::unsupported, fmt::format("kernel {} is not registered for {}", kernel.name, c_.backend.target.text()))
        .fix("give ingot.register_kernel an implementation for it, or leave the operator to PyTorch (torch_executed_ops)");
  }
  push(std::move(*d.choice), std::move(operands), static_cast<uint32_t>(node.out.size()), kernel.name, node.origin);
  for (ValueId v : node.out) out_.steps.back().results.push_back(itself(v));
}

}  // namespace ingot::compile
