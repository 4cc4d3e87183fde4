#include "compile/passes/expand_kernel.h"

#include <algorithm>

#include "ir/replace.h"
#include "kernels/definition.h"

namespace ingot::compile {

using namespace ir;

void expand_kernel(Graph& g, const std::function<bool(const Node&)>& is_lacking) {
  if (std::none_of(g.nodes.begin(), g.nodes.end(), is_lacking)) return;
  replace_results(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) {
    return is_lacking(node) ? kernels::definition_of(node.op)->expand(to, node, in) : std::vector<ValueId>();
  });
}

}  // namespace ingot::compile
