// Writes grid_sample in primitives, by its kernel definition, if the backend has no kernel for it.
#include "compile/passes/expand_kernel.h"
#include "compile/passes/passes.h"
#include "kernels/definition.h"

namespace ingot::compile {

using namespace ir;

namespace {

bool lacks_sampling(const Graph& g, const Node& node, const Backend& backend) {
  if (node.op != Op::grid_sample) return false;
  const kernels::Definition& kernel = *kernels::definition_of(node.op);
  const std::vector<std::byte> constants = kernel.plain(g, node).constants;
  backend::Plain sketch{kernel.name, constants, {}};
  for (ValueId v : {node.in[0], node.in[1], node.out[0]}) sketch.types.push_back(g.type(v).dtype);
  return !backend.has_offer({std::move(sketch)});
}

}  // namespace

void expand_grid_sample(Graph& g, const Backend& backend) {
  expand_kernel(g, [&](const Node& n) { return lacks_sampling(g, n, backend); });
}

}  // namespace ingot::compile
