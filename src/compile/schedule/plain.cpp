// Kernels without a body: scan, sort, scatter.
#include "base/error.h"
#include "compile/schedule/scheduler.h"
#include "kernels/scan/run/scan_args.h"
#include "kernels/scatter/run/scatter_args.h"
#include "kernels/sort/run/sort_args.h"

namespace ingot::compile {

using namespace ir;

namespace {

// The layout of the given dims over a value that broadcasts to them.
BufferView broadcast_to(BufferView place, const Dims& dims) {
  StridedLayout& w = place.layout;
  for (size_t i = 0; i < w.dims.size(); ++i) {
    if (w.dims[i] == Dim(1)) w.strides[i] = 0;
  }
  w.strides.insert(w.strides.begin(), dims.size() - w.dims.size(), Dim(0));
  w.dims = dims;
  return place;
}

kernels::ScatterArgs::Kind scatter_kind(const std::string& kind) {
  using Kind = kernels::ScatterArgs::Kind;
  return kind == "set" ? Kind::set : kind == "add" ? Kind::add : kind == "mul" ? Kind::mul : kind == "min" ? Kind::min : Kind::max;
}

kernels::ScanArgs::Kind scan_kind(const std::string& kind) {
  using Kind = kernels::ScanArgs::Kind;
  return kind == "sum" ? Kind::sum : kind == "prod" ? Kind::prod : kind == "max" ? Kind::max : kind == "min" ? Kind::min : Kind::logsumexp;
}

}  // namespace

void Scheduler::plain(NodeId n) {
  const Node& node = g_.nodes[n];
  const Attributes& a = node.attributes;
  const bool is_scatter = node.op == Op::scatter || node.op == Op::scatter_along;
  if (is_scatter) root(s_.part_root.at({n, 0}));
  std::string_view kernel;
  std::vector<std::byte> constants;
  std::vector<BufferView> operands;
  for (size_t i = is_scatter ? 1 : 0; i < node.in.size(); ++i) {
    auto place = s_.require(node.in[i]);
    if (!place) return need(place.missing());
    operands.push_back(std::move(*place));
  }
  switch (node.op) {
    case Op::scan: {
      kernel = "scan";
      constants = kernels::serialise(kernels::ScanArgs{scan_kind(a.string("kind")), static_cast<uint8_t>(a.integer("axis"))});
      break;
    }
    case Op::sort:
    case Op::topk: {
      kernel = "sort";
      bool down = a.boolean(node.op == Op::sort ? "descending" : "largest");
      int64_t axis = g_.type(node.in[0]).dims.empty() ? 0 : a.integer("axis");
      constants = kernels::serialise(kernels::SortArgs{static_cast<uint8_t>(axis), down});
      break;
    }
    case Op::scatter: {
      kernel = "scatter";
      kernels::ScatterArgs args;
      args.kind = scatter_kind(a.string("kind"));
      args.wrap = true;
      args.position = static_cast<uint8_t>(a.integer("position"));
      for (int64_t axis : a.integers("axes")) args.axes.push_back(static_cast<uint8_t>(axis));
      constants = kernels::serialise(args);
      Dims indices;
      for (size_t i = 2; i < node.in.size(); ++i) indices = broadcast(indices, g_.type(node.in[i]).dims, g_.symbols);
      for (size_t i = 1; i < operands.size(); ++i) operands[i] = broadcast_to(std::move(operands[i]), indices);
      break;
    }
    case Op::scatter_along: {
      kernel = "scatter_along";
      kernels::ScatterArgs args;
      args.kind = scatter_kind(a.string("kind"));
      args.axes = {static_cast<uint8_t>(a.integer("axis"))};
      constants = kernels::serialise(args);
      operands[1].layout.dims = operands[0].layout.dims;
      break;
    }
    default: fail(Code::unsupported, "no backend has a kernel for {}", name_of(node.op));
  }
  for (ValueId v : node.out) operands.push_back(s_.places[v]);
  backend::Plain site{kernel, constants, {}};
  for (const BufferView& p : operands) site.types.push_back(p.dtype);
  Decision d = choose({std::move(site)});
  if (!d.choice) fail(Code::unsupported, "no backend has a kernel for {}", name_of(node.op));
  push(std::move(*d.choice), std::move(operands), static_cast<uint32_t>(node.out.size()), std::string(name_of(node.op)), node.origin);
  for (ValueId v : node.out) out_.steps.back().results.push_back(itself(v));
}

}  // namespace ingot::compile
