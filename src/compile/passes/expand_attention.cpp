// Writes attention in primitives, by its kernel definition, if the backend has no kernel for it. Other kernels are asked for when they are scheduled.
#include <algorithm>

#include "compile/passes/passes.h"
#include "ir/replace.h"
#include "kernels/definition.h"

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
  auto is_expanded = [&](const Node& n) { return is_lacking(g, n, backend); };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), is_expanded)) return;
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) {
    return is_expanded(node) ? std::optional(kernels::definition_of(node.op)->expand(to, node, in)) : std::nullopt;
  });
}

}  // namespace ingot::compile
