#include "lower/hold_as_signed.h"

#include <algorithm>
#include <memory>

#include "ir/compose_nodes.h"

namespace ingot::lower {

using namespace ir;

namespace {

// `result`: the type of the node's result, which a fill has.
Attribute of_signed(const Attribute& a, DType result) {
  if (const auto* t = std::get_if<DType>(&a.value)) return signed_type(*t);
  if (const auto* graph = std::get_if<GraphRef>(&a.value)) {
    Graph inner = **graph;
    hold_as_signed(inner);
    return GraphRef(std::make_shared<const Graph>(std::move(inner)));
  }
  if (const auto* list = std::get_if<List>(&a.value)) {
    List made;
    for (const Attribute& one : *list) made.push_back(of_signed(one, result));
    return made;
  }
  if (const auto* map = std::get_if<AffineMap>(&a.value); map != nullptr && map->fill && is_wide_unsigned(result)) {
    AffineMap made = *map;
    made.fill = converted(*map->fill, signed_type(result));
    return made;
  }
  return a;
}

bool has_wide_unsigned(const Graph& g) {
  auto inside = [](const Node& n) {
    if (n.attributes.find("graphs") == nullptr) return false;
    const std::vector<GraphRef> graphs = n.attributes.graphs("graphs");
    return std::any_of(graphs.begin(), graphs.end(), [](const GraphRef& graph) { return has_wide_unsigned(*graph); });
  };
  return std::any_of(g.values.begin(), g.values.end(), [](const Value& v) { return is_wide_unsigned(v.type.dtype); }) || std::any_of(g.nodes.begin(), g.nodes.end(), inside);
}

}  // namespace

void hold_as_signed(Graph& g) {
  if (!has_wide_unsigned(g)) return;
  for (Node& n : g.nodes) {
    const DType result = n.out.empty() ? DType::b8 : g.type(n.out[0]).dtype;
    Attributes made;
    for (const auto& [name, value] : n.attributes) {
      const bool number = n.op == Op::literal && name == "value" && is_wide_unsigned(result);
      made.set(name, number ? to_attribute(converted(n.attributes.scalar("value"), signed_type(result))) : of_signed(value, result));
    }
    n.attributes = std::move(made);
  }
  for (Value& v : g.values) v.type.dtype = signed_type(v.type.dtype);
}

}  // namespace ingot::lower
