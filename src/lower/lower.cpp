// Expands a captured graph and runs the passes.
#include "lower/lower.h"

#include <algorithm>

#include "ir/written.h"
#include "lower/passes.h"

namespace ingot::lower {

const std::vector<Pass>& passes() {
  static const std::vector<Pass> list = {
#define PASS(name, purpose) {{#name, purpose}, name},
#define AGAIN(name, pass) {{#name, #pass " once more"}, pass},
#include "lower/passes.def"
#undef PASS
#undef AGAIN
  };
  return list;
}

namespace {

// Operands of branches and loops that are weights are weights of the graphs inside, so that these can be packed and folded.
void hand_weights_in(ir::Graph& g, ir::Node& node, std::vector<ir::Graph>& inner) {
  const std::vector<ir::ValueId> written = ir::written_by_outputs(g);
  const size_t first = node.op == ir::Op::branch ? 1 : static_cast<size_t>(node.attributes.integer("carried"));
  for (size_t i = node.in.size(); i-- > first;) {
    const ir::Weight* w = g.weight_of(node.in[i]);
    if (w == nullptr || std::find(written.begin(), written.end(), w->value) != written.end()) continue;
    for (ir::Graph& graph : inner) graph.make_weight(node.op == ir::Op::branch ? i - 1 : i, *w);
    node.in.erase(node.in.begin() + static_cast<ptrdiff_t>(i));
  }
}

// Calls `run` on every graph inside a branch or a loop, the innermost first.
void for_inner_graphs(ir::Graph& g, const std::function<void(ir::Graph&)>& run) {
  for (ir::Node& node : g.nodes) {
    if (node.attributes.find("graphs") == nullptr) continue;
    std::vector<ir::Graph> inner;
    for (const ir::GraphRef& graph : node.attributes.graphs("graphs")) inner.push_back(*graph);
    hand_weights_in(g, node, inner);
    ir::List made;
    for (ir::Graph& graph : inner) {
      for_inner_graphs(graph, run);
      run(graph);
      made.push_back(ir::GraphRef(std::make_shared<const ir::Graph>(std::move(graph))));
    }
    node.attributes.set("graphs", std::move(made));
  }
}

}  // namespace

ir::Graph lower(const ir::Graph& captured, const ir::PassObserver& observe) {
  ir::Graph g;
  ir::run_pass("expand", g, [&] { g = expand_operators(captured); }, observe);
  auto run = [&](ir::Graph& graph) { ir::run_passes(graph, passes(), observe); };
  for_inner_graphs(g, run);
  run(g);
  return g;
}

}  // namespace ingot::lower
