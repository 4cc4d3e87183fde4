// Graphs inside the graph: those of torch.cond and while_loop, and regions that are written out where they stand (no_grad, autocast).
#include <utility>

#include "capture/importer.h"

namespace ingot::capture {

using ir::Dim;
using ir::Graph;
using ir::List;
using ir::Type;
using ir::ValueId;

// A graph inside, whose inputs stand for operands of these types. It has the symbols of the one around.
ir::GraphRef Importer::inner_graph(Json graph, const std::vector<Type>& operands, const Scope& outer) {
  Graph around = std::exchange(g_, Graph());
  g_.symbols = around.symbols;
  auto foreign = std::exchange(foreign_, {});
  ++inner_;
  struct Back {
    Importer& importer;
    Graph& around;
    std::unordered_map<ValueId, std::string>& foreign;
    ~Back() {
      --importer.inner_;
      around.symbols = std::move(importer.g_.symbols);
      importer.g_ = std::move(around);
      importer.foreign_ = std::move(foreign);
    }
  } back{*this, around, foreign};
  Scope scope = scope_of(graph);
  scope.known_sizes = outer.known_sizes;
  Json inputs = graph.at("inputs");
  size_t next = 0;
  for (auto i : inputs.array()) {
    std::string_view kind;
    Json input = inputs.child(i).only(kind);
    if (kind != "as_tensor") fail(Code::unsupported, "a number is handed into a region of control flow (an int that changes from turn to turn, or a size)");
    if (next == operands.size()) fail(Code::format, "the model's JSON is damaged: a region has too few arguments");
    const std::string name(input.at("name").string());
    // Its sizes are those of what is handed in, whatever torch calls them inside.
    scope.values[input.at("name").string()] = g_.add_input(name, operands[next++]);
  }
  if (next != operands.size()) fail(Code::format, "the model's JSON is damaged: a region has too many arguments");
  add_nodes(graph, scope);
  Json outputs = graph.at("outputs");
  for (auto o : outputs.array()) {
    std::string_view kind;
    Json out = outputs.child(o).only(kind);
    if (kind != "as_tensor") fail(Code::unsupported, "a region of control flow gives a number");
    const std::string name(out.at("name").string());
    g_.outputs.push_back({value_named(scope, out.at("name").string()), name, {}});
  }
  Graph made = g_;
  return std::make_shared<const Graph>(std::move(made));
}

void Importer::add_control(Json node, const std::string& target, Scope& scope) {
  struct Depth {
    int& at;
    ~Depth() { --at; }
  } depth{++depth_};
  if (depth_ > 16) fail(Code::format, "the model's JSON is damaged: regions are nested too deeply");
  const bool branch = target == "higher_order.cond";
  std::vector<Json> graphs;
  Call call;
  int64_t carried = -1;
  Json inputs = node.at("inputs");
  for (auto i : inputs.array()) {
    std::string_view kind;
    Json v = inputs.child(i).at("arg").only(kind);
    if (kind == "as_graph") {
      graphs.push_back(v.at("graph"));
    } else if (kind == "as_tensor") {
      tensor(call, scope, v);
    } else if (kind == "as_tensors") {
      for (auto t : v.array()) tensor(call, scope, v.child(t));
      if (carried < 0) carried = static_cast<int64_t>(call.in.size());
    } else if (v.is_array() && v.array().size() == 0) {
      if (carried < 0) carried = static_cast<int64_t>(call.in.size());
    } else {
      fail(Code::unsupported, "a {} as an operand of control flow is not supported", kind);
    }
  }
  const size_t first = branch ? 1 : 0;
  if (graphs.size() != 2 || call.in.size() < first) fail(Code::format, "the model's JSON is damaged: {} has no two graphs", target);
  for (ValueId v : call.in) {
    if (auto found = foreign_.find(v); found != foreign_.end()) throw Error(Code::unsupported, found->second);
  }
  std::vector<Type> operands;
  for (size_t i = first; i < call.in.size(); ++i) operands.push_back(g_.type(call.in[i]));
  List list;
  const ir::OriginId outer = g_.current_origin;
  for (const Json& g : graphs) list.push_back(inner_graph(g, operands, scope));
  g_.current_origin = outer;
  call.attributes.set("target", target);
  call.attributes.set("graphs", std::move(list));
  if (!branch) call.attributes.set("carried", carried);
  std::vector<std::string_view> names;
  std::vector<Type> types;
  Json outputs = node.at("outputs");
  auto result = [&](Json t) {
    names.push_back(t.at("name").string());
    types.push_back(meta(meta_named(scope, names.back())).type);
  };
  for (auto o : outputs.array()) {
    std::string_view kind;
    Json out = outputs.child(o).only(kind);
    if (kind == "as_tensor") result(out);
    if (kind == "as_tensors") {
      for (auto t : out.array()) result(out.child(t));
    }
  }
  add_results(std::move(call), names, std::move(types), scope);
}

// no_grad and disabled autocast wrap a part of the graph without changing what it computes.
void Importer::inline_region(Json node, std::string_view target, Scope& scope) {
  bool grad = target == "higher_order.wrap_with_set_grad_enabled", cast = target == "higher_order.wrap_with_autocast";
  if (!grad && !cast) {
    std::string_view name = target.substr(target.find('.') + 1);
    throw Error(Code::unsupported, fmt::format("the operator {} (a region of its own in the graph) is not supported yet", name), {},
                "Write the control flow with tensor operations such as torch.where, or move it out of the exported module.");
  }
  Scope inner;
  std::optional<Json> graph;
  std::vector<Json> arguments;
  Json inputs = node.at("inputs");
  bool enabled = false;
  int position = 0;
  for (auto i : inputs.array()) {
    std::string_view kind;
    Json arg = inputs.child(i).at("arg"), v = arg.only(kind);
    if (graph) {
      arguments.push_back(arg);
    } else if (kind == "as_graph") {
      graph = v.at("graph");
    } else if (cast && position == 2 && kind == "as_bool") {
      enabled = v.boolean();
    }
    ++position;
  }
  if (!graph) fail(Code::format, "the model's JSON is damaged: {} has no graph", target);
  if (enabled) {
    throw Error(Code::unsupported, "a region of torch.autocast, whose casts are not in the program");
  }
  if (++depth_ > 16) fail(Code::format, "the model's JSON is damaged: regions are nested too deeply");
  inner = scope_of(*graph);
  Json names = graph->at("inputs");
  size_t next = 0;
  for (auto n : names.array()) {
    if (next >= arguments.size()) fail(Code::format, "the model's JSON is damaged: {} has too few arguments", target);
    std::string_view kind, given_kind;
    Json name = names.child(n).only(kind), given = arguments[next++].only(given_kind);
    if (kind == "as_tensor" && given_kind == "as_tensor") {
      inner.values[name.at("name").string()] = value_named(scope, given.at("name").string());
    } else if (kind == "as_sym_int" && name.find("as_name")) {
      std::string_view k;
      Json v = given.is_object() ? given.only(k) : given;
      inner.known_sizes[name.at("as_name").string()] = given_kind == "as_int" ? Dim(given.integer()) : k == "as_name" ? size_named(scope, v.string()) : Dim(v.integer());
    }
  }
  ir::OriginId outer = g_.current_origin;
  add_nodes(*graph, inner);
  g_.current_origin = outer;
  // Results by position: the region's outputs get the names the node gives them.
  std::vector<std::string_view> made;
  auto flatten = [&](Json list, auto&& each) {
    for (auto o : list.array()) {
      std::string_view kind;
      Json out = list.child(o).only(kind);
      if (kind == "as_tensor") each(out);
      if (kind == "as_tensors") {
        for (auto t : out.array()) each(out.child(t));
      }
    }
  };
  flatten(graph->at("outputs"), [&](Json t) { made.push_back(t.at("name").string()); });
  size_t i = 0;
  flatten(node.at("outputs"), [&](Json t) {
    if (i >= made.size()) fail(Code::format, "the model's JSON is damaged: {} has too few results", target);
    scope.values[t.at("name").string()] = value_named(inner, made[i++]);
  });
  --depth_;
}

}  // namespace ingot::capture
