// Writes grid_sample in primitives, by its kernel definition, if the backend has no kernel for it.
#include <algorithm>

#include "compile/passes/passes.h"
#include "ir/replace.h"
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
  auto is_expanded = [&](const Node& n) { return lacks_sampling(g, n, backend); };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), is_expanded)) return;
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) {
    return is_expanded(node) ? std::optional(kernels::definition_of(node.op)->expand(to, node, in)) : std::nullopt;
  });
}

}  // namespace ingot::compile
