#include "ir/replace.h"

#include "base/error.h"

namespace ingot::ir {

bool replace_nodes(Graph& g, const Replace& f) {
  return replace_results(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>& renamed) {
    const std::optional<ValueId> result = f(to, node, in, renamed);
    return result ? std::vector{*result} : std::vector<ValueId>();
  });
}

bool replace_results(Graph& g, const ReplaceAll& f) {
  Graph to;
  to.symbols = g.symbols;
  to.origins = g.origins;
  to.checks = g.checks;
  to.nodes.reserve(g.nodes.size());
  to.values.reserve(g.values.size());
  std::vector<ValueId> renamed(g.values.size(), none_id);
  bool changed = false;
  for (const Node& node : g.nodes) {
    to.current_origin = node.origin;
    to.current_group = node.group;
    if (node.op == Op::input) {
      renamed[node.out[0]] = to.add_input(g.values[node.out[0]].name, g.type(node.out[0]));
      to.nodes.back().attributes = node.attributes;  // with its order
      continue;
    }
    if (node.op == Op::weight) {
      const Weight* w = g.weight_of(node.out[0]);
      if (w != nullptr) {
        renamed[node.out[0]] = to.add_weight(*w, g.type(node.out[0]));
        continue;
      }
    }
    std::vector<ValueId> in;
    in.reserve(node.in.size());
    for (ValueId v : node.in) in.push_back(renamed[v]);
    const std::vector<ValueId> results = f(to, node, in, renamed);
    for (size_t i = 0; i < results.size(); ++i) {
      const Type &was = g.type(node.out[i]), &is = to.type(results[i]);
      if (!(was.dtype == is.dtype) || was.dims.size() != is.dims.size()) fail(Code::internal, "a pass replaces {} by a value of another type", name_of(node.op));
      renamed[node.out[i]] = results[i];
    }
    if (!results.empty()) {
      changed = true;
      continue;
    }
    std::vector<Type> types;
    for (ValueId v : node.out) types.push_back(g.type(v));
    NodeId id = to.add_node(node.op, std::move(in), node.attributes, std::move(types));
    for (size_t i = 0; i < node.out.size(); ++i) {
      ValueId v = to.nodes[id].out[i];
      renamed[node.out[i]] = v;
      to.values[v].name = g.values[node.out[i]].name;
    }
  }
  for (const Output& o : g.outputs) to.outputs.push_back({renamed[o.value], o.name, o.order, o.to});
  // Inputs were added as their nodes came; they keep the order of the signature.
  std::vector<Input> inputs;
  for (const Input& i : g.inputs) inputs.push_back({renamed[i.value], i.name, i.order});
  to.inputs = std::move(inputs);
  to.current_origin = none_id;
  to.current_group = 0;
  to.remove_unused();
  changed = changed || to.nodes.size() != g.nodes.size();
  g = std::move(to);
  return changed;
}

}  // namespace ingot::ir
