// Writes products of experts in other primitives, by their kernel's definition, if the backend has no kernel for them.
#include "compile/passes/expand_kernel.h"
#include "compile/passes/passes.h"

namespace ingot::compile {

using namespace ir;

void expand_experts(Graph& g, const Backend& backend) {
  expand_kernel(g, [&](const Node& n) { return n.op == Op::ragged_matmul && !backend.has_offer(sketch_of(g, n, sketch_of(g, n))); });
}

}  // namespace ingot::compile
