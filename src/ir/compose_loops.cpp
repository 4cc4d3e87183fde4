#include "ir/compose_nodes.h"

namespace ingot::ir {

namespace {

// A graph inside `around`, with an input for each operand.
struct Inner {
  Graph graph;
  Handles inputs;

  Inner(const Graph& around, const Handles& operands) {
    graph.symbols = around.symbols;
    if (around.current_origin != none_id) graph.current_origin = graph.add_origin(around.origins[around.current_origin]);
    graph.current_group = around.current_group;
    for (size_t i = 0; i < operands.size(); ++i) inputs.emplace_back(&graph, graph.add_input(fmt::format("operand{}", i), operands[i].type()));
  }
  void give(const Handles& results) {
    for (size_t i = 0; i < results.size(); ++i) graph.outputs.push_back({results[i].id(), fmt::format("result{}", i), {}});
    graph.current_origin = none_id;
    graph.current_group = 0;
  }
};

}  // namespace

Handles repeat(Graph& g, const Dim& count, Handles carried, const Handles& others, const Turn& turn) {
  const Handle first = literal(g, 0, DType::i64);
  carried.insert(carried.begin(), Handle(&g, first.id()));
  Handles operands = carried;
  operands.insert(operands.end(), others.begin(), others.end());
  Inner condition(g, operands), body(g, operands);
  condition.give({condition.inputs[0] < Operand(count)});
  const auto end_of_carried = body.inputs.begin() + static_cast<std::ptrdiff_t>(carried.size());
  Handles next = turn(body.inputs[0], {body.inputs.begin() + 1, end_of_carried}, {end_of_carried, body.inputs.end()});
  next.insert(next.begin(), body.inputs[0] + 1);
  body.give(next);
  List graphs;
  for (Inner* inner : {&condition, &body}) graphs.push_back(GraphRef(std::make_shared<const Graph>(std::move(inner->graph))));
  Attributes attributes{{"graphs", std::move(graphs)}, {"carried", static_cast<int64_t>(carried.size())}, {"count", count}};
  std::vector<ValueId> in;
  for (const Handle& h : operands) in.push_back(h.id());
  std::vector<Type> types = infer(g, Op::loop, in, attributes);
  const NodeId made = g.add_node(Op::loop, std::move(in), std::move(attributes), std::move(types));
  Handles last;
  for (ValueId v : g.nodes[made].out) last.emplace_back(&g, v);
  last.erase(last.begin());
  return last;
}

}  // namespace ingot::ir
