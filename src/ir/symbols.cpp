#include "ir/symbols.h"

#include <algorithm>

namespace ingot::ir {

namespace {

void visit_scalar(const Scalar& s, FunctionRef<void(const Dim&)> visit) {
  if (const auto* d = std::get_if<Dim>(&s.value)) visit(*d);
}

// Sizes of a graph inside, but for those that it reads itself.
void visit_graph(const Graph& g, FunctionRef<void(const Dim&)> visit) {
  const std::vector<uint32_t> own = read_symbols(g);
  std::vector<SymbolId> symbols;
  auto outer = [&](const Dim& d) {
    symbols.clear();
    d.collect_symbols(symbols);
    if (std::none_of(symbols.begin(), symbols.end(), [&](SymbolId s) { return own[s] != none_id; })) visit(d);
  };
  for (const Node& n : g.nodes) visit_sizes(g, n, outer);
}

void visit_attribute(const Attribute& a, FunctionRef<void(const Dim&)> visit) {
  if (const auto* d = std::get_if<Dim>(&a.value)) visit(*d);
  if (const auto* list = std::get_if<List>(&a.value)) {
    for (const Attribute& part : *list) visit_attribute(part, visit);
  }
  if (const auto* inner = std::get_if<GraphRef>(&a.value)) visit_graph(**inner, visit);
  if (const auto* map = std::get_if<AffineMap>(&a.value)) {
    for (const Dim& d : map->dims) visit(d);
    for (const AffineMap::Axis& axis : map->axes) visit(axis.offset);
    if (map->fill) visit_scalar(*map->fill, visit);
  }
}

}  // namespace

void visit_sizes(const Graph& g, const Node& node, FunctionRef<void(const Dim&)> visit) {
  for (ValueId v : node.out) {
    for (const Dim& d : g.type(v).dims) visit(d);
  }
  for (const auto& [name, value] : node.attributes) visit_attribute(value, visit);
}

std::vector<SymbolId> used_symbols(const Graph& g, const Node& node) {
  std::vector<SymbolId> used;
  visit_sizes(g, node, [&](const Dim& d) { d.collect_symbols(used); });
  return used;
}

bool reads_symbol(const Graph& g, const Node& node) {
  bool reads = false;
  visit_sizes(g, node, [&](const Dim& d) { reads = reads || !d.is_constant(); });
  return reads;
}

std::vector<uint32_t> read_symbols(const Graph& g) {
  std::vector<uint32_t> out(g.symbols.size(), none_id);
  for (uint32_t o = 0; o < g.outputs.size(); ++o) {
    if (g.outputs[o].to != Output::To::size) continue;
    for (SymbolId s = 0; s < g.symbols.size(); ++s) {
      if (g.symbols[s].name == g.outputs[o].name) out[s] = o;
    }
  }
  return out;
}

std::optional<LinearSize> linear_size(const Dim& dim) {
  using Kind = Dim::Kind;
  const Dim::Expression e = dim.expression();
  if (e.kind == Kind::symbol) return LinearSize{static_cast<uint32_t>(e.value)};
  if ((e.kind != Kind::add && e.kind != Kind::mul) || e.parts.size() != 2) return std::nullopt;
  const bool swapped = e.parts[0].is_constant();
  const std::optional<int64_t> number = e.parts[swapped ? 0 : 1].constant();
  if (!number) return std::nullopt;
  std::optional<LinearSize> size = linear_size(e.parts[swapped ? 1 : 0]);
  if (!size) return std::nullopt;
  if (e.kind == Kind::add) {
    if (__builtin_add_overflow(size->offset, *number, &size->offset)) return std::nullopt;
  } else if (*number <= 0 || !size->plain()) {
    return std::nullopt;
  } else {
    size->factor = *number;
  }
  return size;
}

std::pair<Dim, Dim> unequal(const Dim& left, const Dim& right, std::span<const Symbol> symbols) {
  if (known_less(right, left, symbols) == Truth::no) return {left + Dim(1), right};
  if (known_less(left, right, symbols) == Truth::no) return {right + Dim(1), left};
  const Dim difference = right - left;
  return {Dim(1), difference * difference};  // integers that differ have a difference whose square is at least 1
}

}  // namespace ingot::ir
