// Ranges and names that the user gives to dynamic axes after capture.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "capture/capture.h"
#include "ir/symbols.h"

namespace ingot::capture {

namespace {

using ir::Attribute;
using ir::Dim;
using ir::Graph;
using ir::SymbolId;

// torch's made-up names ("s0", "u12"); a name the user chose never yields to one of these.
bool made_up(std::string_view name) { return name.size() > 1 && (name[0] == 's' || name[0] == 'u') && name.find_first_not_of("0123456789", 1) == std::string_view::npos; }

Dim renamed(const Dim& d, const std::vector<SymbolId>& to) {
  return d.substitute([&](SymbolId s) -> std::optional<Dim> { return Dim::symbol(to[s]); });
}

void rename(Attribute& a, const std::vector<SymbolId>& to) {
  if (auto* d = std::get_if<Dim>(&a.value)) {
    *d = renamed(*d, to);
  } else if (auto* list = std::get_if<ir::List>(&a.value)) {
    for (Attribute& e : *list) rename(e, to);
  } else if (auto* map = std::get_if<ir::AffineMap>(&a.value)) {
    for (Dim& d : map->dims) d = renamed(d, to);
    for (ir::AffineMap::Axis& axis : map->axes) axis.offset = renamed(axis.offset, to);
  }
}

void rename_all(Graph& g, const std::vector<SymbolId>& to) {
  for (ir::Value& v : g.values) {
    for (Dim& d : v.type.dims) d = renamed(d, to);
  }
  for (ir::Node& n : g.nodes) {
    ir::Attributes attributes;
    for (auto [name, value] : n.attributes) {
      rename(value, to);
      attributes.set(name, std::move(value));
    }
    n.attributes = std::move(attributes);
  }
  for (ir::Check& c : g.checks) {
    c.left = renamed(c.left, to);
    c.right = renamed(c.right, to);
  }
}

// The graphs inside get the symbols of the graph around them, whose numbers they use.
void share_symbols(Graph& g, const std::vector<SymbolId>* to) {
  for (ir::Node& n : g.nodes) {
    if (n.attributes.find("graphs") == nullptr) continue;
    ir::List graphs;
    for (const ir::GraphRef& inside : n.attributes.graphs("graphs")) {
      Graph made = *inside;
      if (to != nullptr) rename_all(made, *to);
      made.symbols = g.symbols;
      share_symbols(made, to);
      graphs.push_back(ir::GraphRef(std::make_shared<const Graph>(std::move(made))));
    }
    n.attributes.set("graphs", std::move(graphs));
  }
}

// Symbol `gone` becomes `kept` everywhere; the ids above it move down by one.
void unite(Graph& g, SymbolId kept, SymbolId gone) {
  std::vector<SymbolId> to(g.symbols.size());
  for (SymbolId s = 0; s < to.size(); ++s) to[s] = s > gone ? s - 1 : s;
  to[gone] = to[kept];
  g.symbols.erase(g.symbols.begin() + gone);
  rename_all(g, to);
  share_symbols(g, &to);
}

// "input_ids axis 0", for messages.
std::string first_axis_of(const Graph& g, SymbolId symbol, std::string_view except, int64_t except_axis) {
  for (const ir::Input& input : g.inputs) {
    const ir::Dims& dims = g.type(input.value).dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      auto size = ir::linear_size(dims[i]);
      if (size && size->symbol == symbol && !(input.name == except && static_cast<int64_t>(i) == except_axis)) return fmt::format("{} axis {}", input.name, i);
    }
  }
  return {};
}

}  // namespace

void set_dim(Model& model, std::string_view input_name, int64_t axis, int64_t min, int64_t opt, int64_t max, std::string_view name) {
  Graph& g = model.graph;
  auto bad = [](std::string message, std::string remedy) { throw Error(Code::invalid_input, std::move(message), {}, std::move(remedy)); };
  const ir::Input* input = nullptr;
  std::vector<std::string_view> names;
  for (const ir::Input& i : g.inputs) {
    names.push_back(i.name);
    if (i.name == input_name) input = &i;
  }
  if (input == nullptr) {
    std::string_view near = nearest(input_name, names);
    std::string all;
    for (std::string_view n : names) all += (all.empty() ? "" : ", ") + std::string(n);
    bad(fmt::format("the model has no input \"{}\"", input_name), near.empty() ? "Its inputs are: " + all + "." : fmt::format("Did you mean \"{}\"?", near));
  }
  const ir::Dims& dims = g.type(input->value).dims;
  int64_t rank = static_cast<int64_t>(dims.size()), given = axis;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) bad(fmt::format("input {} has {} axes; axis {} does not exist", input_name, rank, given), "Count axes from 0.");
  if (min < 0 || min > opt || opt > max) {
    bad(fmt::format("input {} axis {}: the range {}..{}..{} is not in order", input_name, axis, min, opt, max), "Give sizes with min <= opt <= max.");
  }
  Dim dim = dims[static_cast<size_t>(axis)];
  if (auto size = dim.constant()) {
    if (min == *size && max == *size) return;
    bad(fmt::format("input {} axis {} was captured with the fixed size {}, so it cannot become {}..{}", input_name, axis, *size, min, max),
        fmt::format("Export with dynamic_shapes={{\"{}\": {{{}: torch.export.Dim(\"{}\", min={}, max={})}}}}.", input_name, axis, name.empty() ? "B" : name, min, max));
  }
  const std::optional<LinearSize> size = ir::linear_size(dim);
  if (!size) {
    bad(fmt::format("input {} axis {} has the size {}, which follows from other sizes", input_name, axis, dim.text(g.symbols)), "Give ranges to the sizes it is computed from.");
  }
  const SymbolId id = size->symbol;
  ir::Symbol& symbol = g.symbols[id];
  // The range of the symbol that the axis gives: of 2*d, sizes 15..33 are d = 8..16.
  const int64_t low = size->symbol_at(min - 1) + 1, high = size->symbol_at(max);
  const int64_t usual = std::clamp(size->symbol_at(opt), low, std::max(low, high));
  auto span = [&](int64_t from, int64_t to) { return fmt::format("{}..{}", size->size_at(from), to == INT64_MAX ? "any" : std::to_string(size->size_at(to))); };
  if (low > high)
    bad(fmt::format("input {} axis {} is {} in the model, and {}..{} holds no such size", input_name, axis, dim.text(g.symbols), min, max), "Give a range that holds one.");
  if (model.ranged.contains(symbol.name) && (symbol.min != low || symbol.max != high)) {
    std::string other = first_axis_of(g, id, input_name, axis);
    if (!other.empty()) {
      bad(fmt::format("{} and {} axis {} are one size in the model, but were given the ranges {} and {}", other, input_name, axis, span(symbol.min, symbol.max), span(low, high)),
          "Give both the same range.");
    }
  }
  if (low < symbol.min || high > symbol.max) {
    bad(fmt::format("input {} axis {} was captured for sizes {}; {}..{} goes beyond", input_name, axis, span(symbol.min, symbol.max), min, max),
        fmt::format("Export with torch.export.Dim(..., min={}, max={}), or narrow the range.", min, max));
  }
  if (!name.empty() && size->plain()) {  // 2*d has no name of its own
    for (SymbolId other = 0; other < g.symbols.size(); ++other) {
      if (other == id || g.symbols[other].name != name) continue;
      ir::Symbol& o = g.symbols[other];
      if (made_up(o.name)) {
        o.name += "_";
        break;
      }
      if (o.min != min || o.max != max) {
        bad(fmt::format("{} and {} axis {} share the name {}, but have the ranges {}..{} and {}..{}", first_axis_of(g, other, input_name, axis), input_name, axis, name, o.min,
                        o.max, min, max),
            "Give both the same range, or different names.");
      }
      model.ranged.erase(symbol.name);
      unite(g, other, id);
      return;
    }
    if (made_up(symbol.name)) symbol.name = name;
  }
  symbol.min = low;
  symbol.opt = usual;
  symbol.max = high;
  model.ranged.insert(symbol.name);
  share_symbols(g, nullptr);
}

}  // namespace ingot::capture
