#include "ir/symbols.h"

namespace ingot::ir {

namespace {

void collect(const Attribute& a, std::vector<SymbolId>& used) {
  if (const auto* d = std::get_if<Dim>(&a.value)) d->collect_symbols(used);
  if (const auto* list = std::get_if<List>(&a.value)) {
    for (const Attribute& part : *list) collect(part, used);
  }
}

}  // namespace

std::vector<SymbolId> used_symbols(const Graph& g, const Node& node) {
  std::vector<SymbolId> used;
  for (ValueId v : node.out) {
    for (const Dim& d : g.type(v).dims) d.collect_symbols(used);
  }
  for (const auto& [name, value] : node.attributes) collect(value, used);
  return used;
}

}  // namespace ingot::ir
