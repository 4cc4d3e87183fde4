// Conditions on sizes that held when the model was captured. A graph has one branch of the model's code, so it is right only where they hold: each is checked at run time.
#include <algorithm>
#include <cctype>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/assertion.h"
#include "capture/guard.h"
#include "capture/importer.h"
#include "ir/symbols.h"

namespace ingot::capture {

using ir::Dim;
using ir::Graph;
using ir::SymbolId;
using ir::Truth;
using ir::ValueId;

namespace {

// The name that torch gives to an input from its path: L['batch']['ids'][0] is batch_ids_0.
std::string name_of_path(std::string_view path) {
  std::string name;
  for (size_t at = 1; at < path.size(); ++at) {
    const char c = path[at];
    const bool quote = c == '\'' || c == '"' || c == ']';
    if (quote) continue;
    if (c == '[' || c == '.') {
      if (!name.empty()) name += '_';
    } else {
      name += isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(tolower(static_cast<unsigned char>(c))) : '_';
    }
  }
  return name;
}

// torch's names of the inputs, in order; "" for a constant.
std::vector<std::string> leaves_of(Json signature) {
  std::vector<std::string> leaves;
  Json specs = signature.at("input_specs");
  for (auto s : specs.array()) {
    std::string_view kind, form;
    Json spec = specs.child(s).only(kind);
    if (kind == "constant_input") leaves.emplace_back();
    if (kind != "user_input") continue;
    Json arg = spec.at("arg").only(form);
    auto name = form == "as_tensor" ? arg.find("name") : form == "as_sym_int" ? arg.find("as_name") : std::nullopt;
    leaves.emplace_back(name ? name->string() : "");
  }
  return leaves;
}

// The input that a path names, or "". torch numbers names that come twice, so a name with such a second is none.
std::string leaf_at(std::string_view path, const std::vector<std::string>& leaves) {
  constexpr std::string_view flat = "L['flat_args'][";
  if (path.starts_with(flat)) {
    const std::string number(path.substr(flat.size(), path.size() - flat.size() - 1));
    const bool valid = !number.empty() && number.size() < 9 && number.find_first_not_of("0123456789") == std::string::npos;
    return valid && std::stoul(number) < leaves.size() ? leaves[std::stoul(number)] : "";
  }
  const std::string name = name_of_path(path);
  auto numbered = [&](const std::string& leaf) {
    return leaf.size() > name.size() + 1 && leaf.starts_with(name + "_") && leaf.find_first_not_of("0123456789", name.size() + 1) == std::string::npos;
  };
  const bool known = std::find(leaves.begin(), leaves.end(), name) != leaves.end();
  return known && std::none_of(leaves.begin(), leaves.end(), numbered) ? name : "";
}

// Whether the size of an axis gives the symbol.
bool on_axis(const Graph& g, SymbolId symbol) {
  for (const ir::Input& input : g.inputs) {
    for (const Dim& d : g.type(input.value).dims) {
      if (auto size = ir::linear_size(d); size && size->symbol == symbol) return true;
    }
  }
  return false;
}

// A size in words of the inputs: "x.shape[0]*y.shape[1]".
std::string in_words(const Graph& g, const Dim& d) {
  std::vector<ir::Symbol> named = g.symbols;  // Dim::text would quote the words
  std::vector<std::string> words(named.size());
  for (const ir::Input& input : g.inputs) {
    const ir::Dims& dims = g.type(input.value).dims;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const auto size = ir::linear_size(dims[axis]);
      if (!size || !words[size->symbol].empty()) continue;
      std::string& text = words[size->symbol] = fmt::format("{}.shape[{}]", input.name, axis);
      if (size->offset != 0) text = fmt::format("({} {} {})", text, size->offset < 0 ? '+' : '-', std::abs(size->offset));
      if (size->factor != 1) text = fmt::format("({}//{})", text, size->factor);
      named[size->symbol].name = fmt::format("size_{}_", size->symbol);
    }
  }
  std::string text = d.text(named);
  for (size_t s = 0; s < words.size(); ++s) {
    for (size_t at = 0; !words[s].empty() && (at = text.find(named[s].name, at)) != std::string::npos; at += words[s].size()) text.replace(at, named[s].name.size(), words[s]);
  }
  return text;
}

std::string in_words(const Graph& g, const Condition& c) {
  if (c.either.empty()) return fmt::format("{} {} {}", in_words(g, c.left), c.equal ? "==" : c.unequal ? "!=" : "<=", in_words(g, c.right));
  std::string text;
  for (const std::vector<Condition>& part : c.either) {
    std::string all;
    for (const Condition& one : part) all += (all.empty() ? "" : " and ") + (one.either.empty() ? in_words(g, one) : "(" + in_words(g, one) + ")");
    text += (text.empty() ? "" : " or ") + all;
  }
  return text;
}

}  // namespace

// One that the ranges imply needs no check. Error (unsupported) if it depends on a number that is given with each call: engines take tensors.
void Importer::add_condition(Condition c, ir::OriginId origin) {
  const std::string held = in_words(g_, c);
  if (!c.either.empty()) c = {broken({c}), 0, true, false};
  std::vector<SymbolId> used;
  c.left.collect_symbols(used);
  c.right.collect_symbols(used);
  for (SymbolId s : used) {
    if (sizes_.is_number(s) && !on_axis(g_, s)) throw Error(Code::unsupported, "a condition on sizes depends on a number that is given with each call");
  }
  if (c.unequal) std::tie(c.left, c.right) = unequal(c.left, c.right, g_.symbols);
  if (c.equal ? known_equal(c.left, c.right, g_.symbols) == Truth::yes : known_less(c.right, c.left, g_.symbols) == Truth::no) return;
  g_.checks.push_back({c.left, c.right, c.equal ? ir::Check::equal : ir::Check::less_equal, origin, "it was captured for " + held});
}

void Importer::add_check(Json node, const Scope& scope) {
  Json inputs = node.at("inputs");
  for (auto i : inputs.array()) {
    std::string_view kind, form, of;
    Json value = inputs.child(i).at("arg").only(kind);
    if (kind != "as_sym_bool") continue;
    Json name = value.only(form);
    if (form != "as_name") continue;
    auto found = scope.bools.find(name.string());
    if (found == scope.bools.end()) return;
    Json condition = found->second.only(of);
    if (of != "as_expr") return;
    std::string_view text = condition.at("expr_str").string();
    if (text == "true") return;
    auto conditions = parse_condition(text, [&](std::string_view s) { return Dim::symbol(sizes_.symbol(s)); }, g_.symbols);
    if (!conditions) throw Error(Code::unsupported, fmt::format("a condition on sizes cannot be checked: {}", text.substr(0, 200)));
    for (Condition& c : *conditions) add_condition(std::move(c), g_.current_origin);
    return;
  }
}

void Importer::add_assertion(Json node, const Scope& scope) {
  if (inner_ != 0) return;  // a branch or loop has no numbers to read
  std::string message = "it has no message";
  std::optional<ValueId> holds;
  Json inputs = node.at("inputs");
  for (auto i : inputs.array()) {
    std::string_view kind;
    Json value = inputs.child(i).at("arg").only(kind);
    if (kind == "as_string") message = std::string(value.string());
    if (kind == "as_tensor") holds = value_named(scope, value.at("name").string());
  }
  if (!holds || foreign_.contains(*holds) || g_.type(*holds).dtype != ir::DType::b8) return;
  const auto number = static_cast<SymbolId>(g_.symbols.size());
  g_.symbols.push_back({fmt::format("assertion_{}", number), 0, 1, 1});
  g_.outputs.push_back({*holds, g_.symbols.back().name, {}, ir::Output::To::size});
  g_.checks.push_back({Dim::symbol(number), Dim(1), ir::Check::equal, g_.current_origin, std::string(assertion) + message});
}

// What a program in a file has in addition to its graph. (In process, Python writes checks into the graph.)
void Importer::add_guards(Json program, Json signature, const Scope& scope) {
  auto guards = program.find("guards_code");
  if (!guards) return;
  const std::vector<std::string> leaves = leaves_of(signature);
  auto size_at = [&](std::string_view source) -> std::optional<Dim> {
    constexpr std::string_view part = ".size()[";
    const size_t dot = source.rfind(part);
    const std::string leaf = leaf_at(source.substr(0, dot), leaves);
    if (leaf.empty()) return std::nullopt;
    if (dot == std::string_view::npos) {
      auto known = scope.known_sizes.find(leaf);
      return known == scope.known_sizes.end() ? std::nullopt : std::optional(known->second);
    }
    const std::string axis(source.substr(dot + part.size(), source.size() - dot - part.size() - 1));
    const auto v = scope.values.find(leaf);
    if (v == scope.values.end() || axis.empty() || axis.size() > 2 || axis.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
    const ir::Dims& dims = g_.type(v->second).dims;
    return std::stoul(axis) < dims.size() ? std::optional(dims[std::stoul(axis)]) : std::nullopt;
  };
  for (auto g : guards->array()) {
    const std::string_view text = guards->child(g).string();
    try {
      auto conditions = parse_guard(text, size_at);
      if (!conditions) throw Error(Code::unsupported, fmt::format("a condition on sizes cannot be checked: {}", text.substr(0, 200)));
      for (Condition& c : *conditions) add_condition(std::move(c), ir::none_id);
    } catch (const Error& e) {
      if (e.code != Code::unsupported) throw;
      ir::Attributes call;
      call.set("target", std::string("aten._assert_scalar.default"));
      call.set("torch_only", e.message);
      g_.add_node(ir::Op::call, {}, std::move(call), {});
    }
  }
}

}  // namespace ingot::capture
