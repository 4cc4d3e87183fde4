#include "lower/rewrite.h"

namespace ingot::lower {

using namespace ir;

Rewriter::Rewriter(const Graph& from) : from_(from), map_(from.values.size(), none_id) {
  to_.symbols = from.symbols;
  to_.origins = from.origins;
  to_.checks = from.checks;
  for (const Input& i : from.inputs) {
    map_[i.value] = to_.add_input(i.name, from.type(i.value));
  }
  for (Weight w : from.weights) {
    ValueId v = w.value;
    map_[v] = to_.add_weight(std::move(w), from.type(v));
  }
}

Graph Rewriter::run(const Rewrite& rewrite) {
  for (NodeId n = 0; n < from_.nodes.size(); ++n) {
    const Node& node = from_.nodes[n];
    if (node.op == Op::input || node.op == Op::weight) continue;
    to_.current_origin = node.origin;
    to_.current_group = node.group;
    if (rewrite(*this, n)) continue;
    std::vector<ValueId> in;
    for (ValueId v : node.in) in.push_back(map_[v]);
    std::vector<Type> types;
    for (ValueId v : node.out) types.push_back(from_.type(v));
    NodeId id = to_.add_node(node.op, std::move(in), node.attributes, std::move(types));
    for (size_t i = 0; i < node.out.size(); ++i) {
      map_[node.out[i]] = to_.nodes[id].out[i];
      to_.values[to_.nodes[id].out[i]].name = from_.values[node.out[i]].name;
    }
  }
  to_.current_origin = none_id;
  to_.current_group = 0;
  for (const Output& o : from_.outputs) to_.outputs.push_back({map_[o.value], o.name, o.order});
  return std::move(to_);
}

}  // namespace ingot::lower
