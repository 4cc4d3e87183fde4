// Writes a Fourier transform along several axes as transforms along one if the backend has no kernel for several.
#include "compile/passes/expand_kernel.h"
#include "compile/passes/passes.h"
#include "ir/compose.h"
#include "kernels/definition.h"

namespace ingot::compile {

using namespace ir;

namespace {

bool lacks_axes(const Graph& g, const Node& node, const Backend& backend) {
  if (node.op != Op::fourier && node.op != Op::fourier_of_real && node.op != Op::fourier_to_real) return false;
  if (fourier_axes(node.attributes) == 1) return false;
  const kernels::PlainStep step = kernels::definition_of(node.op)->plain(g, node);
  return !backend.has_offer(sketch_of(g, node, step.constants));
}

}  // namespace

void expand_fourier(Graph& g, const Backend& backend) {
  expand_kernel(g, [&](const Node& n) { return lacks_axes(g, n, backend); });
}

}  // namespace ingot::compile
