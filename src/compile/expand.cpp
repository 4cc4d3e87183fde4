#include "compile/expand.h"

#include <algorithm>
#include <limits>

#include "ir/compose.h"

namespace ingot::compile {

using namespace ir;

namespace {

ValueId written_out(Graph& to, const Node& node, const std::vector<ValueId>& in) {
  Handle q(&to, in[0]), k(&to, in[1]), v(&to, in[2]);
  DType type = q.dtype(), exact = compute_type(type);
  Handle scores = cast(matmul(q, transpose(k, -1, -2)), exact) * node.attributes.number("scale");
  const double low = -std::numeric_limits<double>::infinity();
  if (in.size() == 4) {
    Handle mask(&to, in[3]);
    scores = mask.dtype() == DType::b8 ? select(mask, scores, low) : scores + cast(mask, exact);
  }
  if (node.attributes.boolean("causal")) {
    Dims square{scores.dim(-2), scores.dim(-1)};
    scores = select(index(to, square, 1) <= index(to, square, 0), scores, low);
  }
  // A row that sees no key gives 0: its largest score is -inf, and nothing is subtracted.
  Handle largest = amax(scores, {-1}, keep);
  Handle e = exp(scores - select(equal(largest, low), 0.0, largest));
  Handle total = sum(e, {-1}, keep);
  return matmul(cast(e / select(equal(total, 0.0), 1.0, total), type), v).id();
}

}  // namespace

Graph without_attention(const Graph& g, FunctionRef<bool(const Type&, const Type&)> stays) {
  auto goes = [&](const Node& n) { return n.op == Op::attention && !stays(g.type(n.in[0]), g.type(n.in[2])); };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), goes)) return g;
  Graph to;
  to.symbols = g.symbols;
  to.origins = g.origins;
  to.checks = g.checks;
  std::vector<ValueId> renamed(g.values.size(), none_id);
  for (const Node& node : g.nodes) {
    to.current_origin = node.origin;
    to.current_group = node.group;
    if (node.op == Op::input) {
      renamed[node.out[0]] = to.add_input(g.values[node.out[0]].name, g.type(node.out[0]));
      continue;
    }
    if (node.op == Op::weight) {
      renamed[node.out[0]] = to.add_weight(*g.weight_of(node.out[0]), g.type(node.out[0]));
      continue;
    }
    std::vector<ValueId> in;
    for (ValueId v : node.in) in.push_back(renamed[v]);
    if (goes(node)) {
      renamed[node.out[0]] = written_out(to, node, in);
      continue;
    }
    std::vector<Type> types;
    for (ValueId v : node.out) types.push_back(g.type(v));
    NodeId id = to.add_node(node.op, std::move(in), node.attributes, std::move(types));
    for (size_t i = 0; i < node.out.size(); ++i) renamed[node.out[i]] = to.nodes[id].out[i];
  }
  for (const Output& o : g.outputs) to.outputs.push_back({renamed[o.value], o.name, o.order, o.to});
  for (size_t i = 0; i < g.inputs.size(); ++i) to.inputs[i] = {renamed[g.inputs[i].value], g.inputs[i].name};
  to.current_origin = none_id;
  to.current_group = 0;
  return to;
}

}  // namespace ingot::compile
