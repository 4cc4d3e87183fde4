#include "lower/expand/calls.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "lower/expand/check.h"
#include "lower/expand/sizes.h"
#include "lower/external.h"
#include "ops/complex.h"

namespace ingot::lower {

using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

// Why an operator without a definition is refused. Python has torch write composites out; a file read without torch may still hold some.
std::string lacking(std::string_view target, bool complex) {
  if (complex) return "the operator table has no definition of it for complex numbers";
  const auto all = ops::absent();
  const bool composite = std::any_of(all.begin(), all.end(), [&](const ops::Absent& op) { return target == op.target && std::string_view(op.group) == "composite"; });
  return fmt::format("the operator table has no definition of it{}", composite ? "; before the program is saved, program.run_decompositions() writes it out of others" : "");
}

// Random numbers that nobody reads are not drawn. torch keeps the call in its graph, because it moves the generator on.
bool is_unread_draw(const Expansion& e, const Node& node) {
  return draws(node.attributes.string("target")) && node.in.empty() && std::none_of(node.out.begin(), node.out.end(), [&](ValueId v) { return e.read[v]; });
}

// What no definition can support: a form that only torch knows, complex numbers that go into branches and loops, a size that comes from the values of a tensor.
bool refuse_early(Expansion& e, ir::NodeId id) {
  const Node& node = e.from.nodes[id];
  if (const ir::Attribute* reason = node.attributes.find("torch_only")) {
    refuse(e, id, std::get<std::string>(reason->value));
    return true;
  }
  if (node.attributes.find("graphs") != nullptr && ops::has_complex(e.from, node)) {
    refuse(e, id, "branches and loops take and give no complex numbers");
    return true;
  }
  // What it reads from data itself is in the sizes of its results alone.
  const std::vector<ir::SymbolId> unknown = unknown_sizes(e, node);
  const std::vector<ir::SymbolId> made = e.data == SizesFromData::allowed ? own_sizes(e, node) : std::vector<ir::SymbolId>();
  for (ir::SymbolId s : unknown) {
    if (std::find(made.begin(), made.end(), s) != made.end()) continue;
    refuse(e, id, size_reason(e, s));
    return true;
  }
  return false;
}

// The call's results in the new graph, from the newest values of its operands.
ops::Results results_of(Expansion& e, const Node& node, const ops::Operator& op) {
  ir::Attributes arguments;
  for (const auto& [name, value] : node.attributes) {
    if (name != "target" && name != ops::operand_order) arguments.set(name == ir::target_argument ? std::string("target") : name, value);
  }
  std::vector<ValueId> in;
  for (ValueId v : node.in) in.push_back(e.values.read(v));
  if (node.attributes.find(ops::operand_order) != nullptr) in[0] = ir::permute(ir::Handle(&e.to, in[0]), node.attributes.integers(ops::operand_order)).id();
  return ops::expand(e.to, op, arguments, in, node.out.size());
}

// Null if there is none. Definitions for complex numbers are also of operators that have some inside.
const ops::Operator* definition(const Expansion& e, const Node& node, std::string_view target) {
  const ops::Operator* real = ops::has_complex(e.from, node) ? nullptr : ops::find(target);
  return real != nullptr ? real : ops::find_complex(target);
}

// A branch or a loop: its graphs are expanded too.
ops::Results branch_or_loop(Expansion& e, const Node& node) {
  const bool branch = node.attributes.string("target") == "higher_order.cond";
  ir::List graphs;
  const std::vector<ir::GraphRef> captured = node.attributes.graphs("graphs");
  for (const ir::GraphRef& g : captured) {
    Expansion inner(*g, e.data, e.known_sizes);
    ir::Graph made = expand_graph(inner);
    made.remove_unused();
    if (!inner.missing.empty()) {
      const Missing& m = inner.missing[0];
      fail(Code::unsupported, "inside it {}: {}", m.target, m.reason);
    }
    for (const ir::Output& o : made.outputs) {
      if (o.to == ir::Output::To::input || o.to == ir::Output::To::weight) fail(Code::unsupported, "inside it \"{}\" is written in place", o.name);
    }
    graphs.push_back(ir::GraphRef(std::make_shared<const ir::Graph>(std::move(made))));
  }
  std::vector<ValueId> in;
  for (ValueId v : node.in) in.push_back(e.values.read(v));
  ir::Attributes attributes{{"graphs", std::move(graphs)}};
  if (branch) {
    in[0] = ir::reshape(ir::to_bool(ir::Handle(&e.to, in[0])), {}).id();
  } else {
    attributes.set("carried", node.attributes.integer("carried"));
  }
  const Op op = branch ? Op::branch : Op::loop;
  const ir::NodeId made = e.to.add_node(op, in, attributes, ir::infer(e.to, op, in, attributes));
  ops::Results out;
  for (ValueId v : e.to.nodes[made].out) out.push_back(ir::Handle(&e.to, v));
  return out;
}

// By the operator's definition. Nothing if the call is refused.
std::optional<ops::Results> by_definition(Expansion& e, ir::NodeId id, const std::string& target) {
  const Node& node = e.from.nodes[id];
  const ops::Operator* op = definition(e, node, target);
  bool writes = false;
  if (op == nullptr) {
    const std::string functional = functional_name(target);
    writes = !functional.empty() && !node.in.empty();
    if (writes) op = definition(e, node, functional);
  }
  if (op == nullptr) {
    refuse(e, id, draws(target) ? fmt::format("{} draws random numbers, which only torch's generator gives", node_name(e, node)) : lacking(target, ops::has_complex(e.from, node)));
    return std::nullopt;
  }
  const std::vector<ir::SymbolId> expected = e.to.expected_sizes;
  ops::Results results = results_of(e, node, *op);
  if (writes && target != "aten.detach_.default" && !results.empty()) {
    e.values.write(id, results[0]);
    results[0] = ir::Handle(&e.to, e.values.read(node.in[0]));
  }
  if (results.size() < node.out.size()) fail(Code::internal, "{} ({}) has {} results where torch recorded {}", node_name(e, node), target, results.size(), node.out.size());
  if (e.data == SizesFromData::allowed) name_sizes(e, node, results);
  if (e.data == SizesFromData::refused && !e.to.outputs.empty()) {
    refuse(e, id, "it reads a size from the values of a tensor, which runs here only where the whole model does");
    return std::nullopt;
  }
  if (!e.to.expected_sizes.empty()) {
    refuse(e, id, size_reason(e, e.to.expected_sizes[0]));
    return std::nullopt;
  }
  for (ir::SymbolId s : expected) e.known_sizes[s] = true;
  // Of what nobody reads torch itself records one thing on the CPU and another on a GPU (statistics of batch_norm).
  for (size_t i = 0; i < node.out.size(); ++i) {
    if (i != 0 && !e.read[node.out[i]]) continue;
    check_type(e, node, target, e.from.type(node.out[i]), results[i].type());
    if (!writes) results[i] = with_known_sizes(results[i], e.from.type(node.out[i]).dims);
  }
  return results;
}

ops::Results by_graphs(Expansion& e, const Node& node, const std::string& target) {
  ops::Results results = branch_or_loop(e, node);
  name_sizes(e, node, results);
  for (size_t i = 0; i < node.out.size(); ++i) check_type(e, node, target, e.from.type(node.out[i]), results[i].type());
  return results;
}

ops::Results by_own_kernel(Expansion& e, const Node& node) {
  std::vector<ValueId> in;
  for (ValueId v : node.in) in.push_back(e.values.read(v));
  return expand_external(e.to, e.from, node, in);
}

}  // namespace

bool draws(std::string_view target) {
  constexpr std::string_view names =
      " rand rand_like randn randn_like randint randint_like randperm bernoulli multinomial normal poisson binomial uniform random geometric cauchy exponential log_normal "
      "dropout native_dropout alpha_dropout feature_dropout feature_alpha_dropout rrelu rrelu_with_noise ";
  if (!target.starts_with("aten.")) return false;
  std::string_view name = target.substr(5, target.find('.', 5) - 5);
  if (name.ends_with('_')) name.remove_suffix(1);
  return names.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

ops::Results remake(Expansion& e, const Node& node) { return results_of(e, node, *definition(e, node, node.attributes.string("target"))); }

void expand_call(Expansion& e, ir::NodeId id) {
  const Node& node = e.from.nodes[id];
  if (is_unread_draw(e, node) || refuse_early(e, id)) return;
  const std::string target = node.attributes.string("target");
  const bool has_graphs = node.attributes.find("graphs") != nullptr, own_kernel = !has_graphs && has_kernel(node);
  e.to.current_origin = node.origin;
  ++e.to.current_group;
  e.to.expected_sizes = unknown_sizes(e, node);
  std::optional<ops::Results> results;
  try {
    results = has_graphs ? by_graphs(e, node, target) : own_kernel ? by_own_kernel(e, node) : by_definition(e, id, target);
  } catch (Error& error) {
    // torch accepted the call, so what a definition refuses is what ingot lacks: a dtype, a form of an argument.
    if (error.code == Code::unsupported || error.code == Code::invalid_input) return refuse(e, id, error.message);
    if (error.code == Code::internal) return refuse(e, id, error.message + " (a fault of ingot; please report it)");
    error.message = fmt::format("{} ({}): {}", node_name(e, node), target, error.message);
    if (error.origin.empty()) error.origin = where(e, node);
    throw;
  }
  if (!results) return;
  for (size_t i = 0; i < node.out.size(); ++i) {
    const ValueId v = (*results)[i].id();
    e.values.define(node.out[i], v);
    if (e.to.values[v].name.empty()) e.to.values[v].name = e.from.values[node.out[i]].name;
  }
  if (!has_graphs && !own_kernel) e.values.note_views(id);
}

}  // namespace ingot::lower
