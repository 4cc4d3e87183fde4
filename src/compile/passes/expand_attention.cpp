// Writes attention in primitives, by its kernel definition, if the backend has no kernel for it. Other kernels are asked for when they are scheduled.
#include "compile/passes/expand_kernel.h"
#include "compile/passes/passes.h"

namespace ingot::compile {

using namespace ir;

namespace {

bool is_lacking(const Graph& g, const Node& node, const Backend& backend) {
  if (node.op != Op::attention) return false;
  backend::Attention sketch{g.type(node.in[0]).dtype};
  sketch.d = g.type(node.in[0]).dims.back();
  sketch.e = g.type(node.in[2]).dims.back();
  return !backend.has_offer({std::move(sketch)});
}

}  // namespace

void expand_attention(Graph& g, const Backend& backend) {
  expand_kernel(g, [&](const Node& n) { return is_lacking(g, n, backend); });
}

}  // namespace ingot::compile
