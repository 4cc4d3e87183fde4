#include "verify/values.h"

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/external/external.h"
#include "kernels/external/run/host_kernel.h"

namespace ingot::verification {

using namespace ir;

namespace {

// These round: casts of the user, what has given bits, nextafter (a step of its type), and registered kernels, whose operands and results have their types.
bool keeps_type(Op op) { return is_leaf(op) || op == Op::cast || op == Op::bitcast || op == Op::literal || op == Op::nextafter || op == Op::external; }

}  // namespace

Values::Values(Graph graph, std::vector<int64_t> symbols) : graph_(std::move(graph)), symbols_(std::move(symbols)), data_(graph_.values.size()) {
  last_.assign(graph_.values.size(), 0);
  for (const Value& v : graph_.values) types_.push_back(v.type.dtype);
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[n];
    for (ValueId v : node.in) last_[v] = n;
    for (ValueId v : node.out) {
      DType& t = graph_.values[v].type.dtype;
      if (is_float(t) && !keeps_type(node.op)) t = DType::f64;
    }
  }
  for (const Node& node : graph_.nodes) {  // whose bits are read, they are those of its type
    if (node.op == Op::bitcast) graph_.values[node.in[0]].type.dtype = types_[node.in[0]];
  }
  for (const Output& o : graph_.outputs) last_[o.value] = graph_.nodes.size();
}

const Data& Values::up_to(ValueId v) {
  for (const size_t until = graph_.values[v].producer; next_ <= until; ++next_) {
    const Node& node = graph_.nodes[next_];
    try {
      node.op == Op::external ? evaluate_external(node) : evaluate_node(graph_, node, symbols_, data_);
    } catch (Error& e) {
      if (e.origin.empty() && node.origin < graph_.origins.size()) e.origin = graph_.origins[node.origin].text();
      throw;
    }
    for (ValueId in : node.in) {
      if (last_[in] == next_) data_[in] = {};
    }
  }
  return data_[v];
}

// Calls the kernel's host function. Without one the results are unknown.
void Values::evaluate_external(const Node& node) {
  const kernels::External kernel = kernels::external_of(node);
  for (ValueId v : node.out) {
    Data& d = data_[v];
    d = {types_[v], sizes_of(graph_.type(v).dims, symbols_), {}, {}};
    d.allocate();
  }
  if (!kernel.cpu) return;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<Index> strides;
  std::vector<ingot_tensor> tensors;
  bool empty = true;
  auto add = [&](ValueId v) {
    Data d = data_[v];
    d.dtype = types_[v];
    bytes.push_back(pack(d));
    Index& s = strides.emplace_back(d.dims.size(), 1);
    for (size_t k = s.size(); k-- > 1;) s[k - 1] = s[k] * d.dims[k];
    tensors.push_back({nullptr, static_cast<ingot_dtype>(d.dtype), static_cast<int32_t>(d.dims.size()), nullptr, nullptr});
  };
  for (ValueId v : node.in) add(v);
  for (size_t k = kernel.written.size(); k < node.out.size(); ++k) add(node.out[k]);
  for (ValueId v : node.out) empty = empty && data_[v].numel() == 0;
  if (empty) return;
  auto value = [&](size_t k) { return k < node.in.size() ? node.in[k] : node.out[kernel.written.size() + k - node.in.size()]; };
  for (size_t k = 0; k < tensors.size(); ++k) {
    tensors[k].data = bytes[k].data();
    tensors[k].dims = data_[value(k)].dims.data();
    tensors[k].strides = strides[k].data();
  }
  std::vector<ingot_kernel_number> numbers;
  for (const Scalar& n : kernel.numbers) {
    const auto* size = std::get_if<Dim>(&n.value);
    const int64_t i = size != nullptr ? size->evaluate(symbols_) : n.is_float() ? 0 : n.to_int();
    numbers.push_back({i, n.is_float() ? n.to_double() : static_cast<double>(i)});
  }
  const std::span all(tensors);
  kernels::call_host_kernel(kernels::open_host_kernel(kernel.name, *kernel.cpu), kernel.name, all.first(node.in.size()), all.subspan(node.in.size()), numbers, inline_workers());
  auto take = [&](ValueId v, size_t k) { data_[v] = unpack(types_[v], data_[v].dims, bytes[k]); };
  for (size_t k = 0; k < node.out.size(); ++k) take(node.out[k], k < kernel.written.size() ? static_cast<size_t>(kernel.written[k]) : node.in.size() + k - kernel.written.size());
}

bool Values::is_known(ValueId v) const {
  const Node& node = graph_.producer(v);
  return node.op != Op::external || kernels::external_of(node).cpu.has_value();
}

void Values::replace(ValueId v, Data data) {
  up_to(v);
  data_[v] = std::move(data);
}

}  // namespace ingot::verification
