#include "lower/expand/sizes.h"

#include <algorithm>

#include "ir/symbols.h"

namespace ingot::lower {

using ir::Node;
using ir::Op;
using ir::ValueId;

void know_sizes(Expansion& e, ValueId v) {
  for (const ir::Dim& d : e.from.type(v).dims) {
    if (auto size = ir::linear_size(d)) e.known_sizes[size->symbol] = true;
  }
}

std::vector<ir::SymbolId> own_sizes(const Expansion& e, const Node& node) {
  std::vector<ir::SymbolId> out;
  for (ValueId v : node.out) {
    for (const ir::Dim& d : e.from.type(v).dims) {
      if (auto s = d.as_symbol()) out.push_back(*s);
    }
  }
  return out;
}

std::vector<ir::SymbolId> unknown_sizes(const Expansion& e, const Node& node) {
  std::vector<ir::SymbolId> unknown;
  const bool control = node.attributes.find("graphs") != nullptr;  // its graphs know their own sizes
  std::vector<ir::SymbolId> used = control ? own_sizes(e, node) : ir::used_symbols(e.from, node);
  for (ValueId v : node.in) {
    for (const ir::Dim& d : e.from.type(v).dims) d.collect_symbols(used);
  }
  for (ir::SymbolId s : used) {
    if (!e.known_sizes[s] && std::find(unknown.begin(), unknown.end(), s) == unknown.end()) unknown.push_back(s);
  }
  return unknown;
}

void name_sizes(Expansion& e, const Node& node, const std::vector<ir::Handle>& results) {
  for (size_t i = 0; i < node.out.size(); ++i) {
    const ir::Dims recorded = e.from.type(node.out[i]).dims;
    for (size_t d = 0; d < recorded.size() && d < results[i].dims().size(); ++d) {
      auto s = recorded[d].as_symbol();
      auto next = s ? std::find(e.to.expected_sizes.begin(), e.to.expected_sizes.end(), *s) : e.to.expected_sizes.end();
      if (next == e.to.expected_sizes.end()) continue;
      const ir::Dim size = results[i].dims()[d];
      std::vector<ir::SymbolId> of;
      size.collect_symbols(of);
      if (std::find(of.begin(), of.end(), *s) != of.end()) continue;  // what gives it comes later
      std::iter_swap(e.to.expected_sizes.begin(), next);
      ir::read_size(ir::Handle(&e.to, e.to.add(Op::size, {}, {{"dim", size}}, {ir::DType::i64, {}})), size);
      e.known_sizes[*s] = true;
    }
  }
}

std::string size_reason(const Expansion& e, ir::SymbolId s) {
  return fmt::format(
      "the size {} does not follow from the sizes of the inputs: it comes from the values of a tensor (nonzero, item, boolean index) or from a number given as an input",
      e.from.symbols[s].name);
}

}  // namespace ingot::lower
