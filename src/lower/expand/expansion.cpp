#include "lower/expand/expansion.h"

#include "ir/symbols.h"
#include "lower/expand/calls.h"
#include "lower/expand/leaves.h"
#include "lower/expand/sizes.h"

namespace ingot::lower {

using ir::Node;
using ir::Op;
using ir::ValueId;

Expansion::Expansion(const ir::Graph& captured, SizesFromData from_data, std::vector<bool> known)
    : from(captured), data(from_data), values(from, to, [this](const Node& n) { return remake(*this, n); }), read(from.values.size(), false), known_sizes(std::move(known)) {
  known_sizes.resize(from.symbols.size(), false);
  if (data == SizesFromData::allowed) {
    const std::vector<uint32_t> reads = ir::read_symbols(from);
    for (size_t s = 0; s < reads.size(); ++s) known_sizes[s] = known_sizes[s] || reads[s] != ir::none_id;
  }
  for (const ir::Input& input : from.inputs) know_sizes(*this, input.value);
  for (const Node& n : from.nodes) {
    for (ValueId v : n.in) read[v] = true;
  }
  for (const ir::Output& o : from.outputs) read[o.value] = true;
}

std::string where(const Expansion& e, const Node& node) { return node.origin == ir::none_id ? "" : e.from.origins[node.origin].text(); }

std::string node_name(const Expansion& e, const Node& node) {
  if (!node.out.empty() && !e.from.values[node.out[0]].name.empty()) return e.from.values[node.out[0]].name;
  return node.origin == ir::none_id ? "a node" : e.from.origins[node.origin].node;
}

void refuse(Expansion& e, ir::NodeId id, const std::string& reason) {
  const Node& node = e.from.nodes[id];
  e.missing.push_back({node.attributes.string("target"), reason, where(e, node), id});
  std::vector<ir::Type> types;
  for (ValueId v : node.out) {
    types.push_back(type_in_memory(e.from.type(v), {}));
    know_sizes(e, v);  // torch makes it
  }
  ir::NodeId made = e.to.add_node(Op::call, {}, node.attributes, std::move(types));
  for (size_t i = 0; i < node.out.size(); ++i) e.values.define(node.out[i], read_from_memory(e, e.to.nodes[made].out[i], {}, e.from.type(node.out[i])));
}

}  // namespace ingot::lower
