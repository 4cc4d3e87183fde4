// Writes grid_sample in primitives, by its kernel definition, if the backend has no kernel for it.
#include "compile/passes/expand_kernel.h"
#include "compile/passes/passes.h"
#include "kernels/definition.h"

namespace ingot::compile {

using namespace ir;

namespace {

bool lacks_sampling(const Graph& g, const Node& node, const Backend& backend) {
  if (node.op != Op::grid_sample) return false;
  const kernels::PlainStep step = kernels::definition_of(node.op)->plain(g, node);
  return !backend.has_offer(sketch_of(g, node, step.constants));
}

}  // namespace

void expand_grid_sample(Graph& g, const Backend& backend) {
  expand_kernel(g, [&](const Node& n) { return lacks_sampling(g, n, backend); });
}

}  // namespace ingot::compile
