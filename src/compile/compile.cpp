#include "compile/compile.h"

#include <algorithm>

#include "base/error.h"
#include "compile/function.h"
#include "compile/split.h"

namespace ingot::compile {

using namespace ir;

namespace {

// Weights of a graph by name in the plan; what a derived leaf stands for is added later.
LeafPlaces places_of(const Graph& g, const plan::Plan& plan) {
  LeafPlaces places{std::vector<uint32_t>(g.values.size(), none_id), std::vector<uint32_t>(g.values.size(), none_id)};
  for (const Weight& w : g.weights) {
    for (uint32_t i = 0; i < plan.weights.size(); ++i) {
      if (plan.weights[i].name == w.name) places.weight[w.value] = i;
    }
  }
  return places;
}

// Adds a graph of weights and what is made from them to another one; weights of one name are one.
void append(Graph& to, const Graph& from) {
  auto first_origin = static_cast<OriginId>(to.origins.size());
  to.origins.insert(to.origins.end(), from.origins.begin(), from.origins.end());
  if (to.symbols.empty()) to.symbols = from.symbols;
  std::vector<ValueId> renamed(from.values.size(), none_id);
  for (const Node& node : from.nodes) {
    if (node.op == Op::weight) {
      const Weight& w = *from.weight_of(node.out[0]);
      auto have = std::find_if(to.weights.begin(), to.weights.end(), [&](const Weight& x) { return x.name == w.name; });
      renamed[node.out[0]] = have != to.weights.end() ? have->value : to.add_weight(w, from.type(w.value));
      continue;
    }
    std::vector<ValueId> in;
    for (ValueId v : node.in) in.push_back(renamed[v]);
    std::vector<Type> types;
    for (ValueId v : node.out) types.push_back(from.type(v));
    to.current_origin = node.origin == none_id ? none_id : node.origin + first_origin;
    NodeId id = to.add_node(node.op, std::move(in), node.attributes, std::move(types));
    for (size_t i = 0; i < node.out.size(); ++i) renamed[node.out[i]] = to.nodes[id].out[i];
  }
  to.current_origin = none_id;
  for (const Output& o : from.outputs) to.outputs.push_back({renamed[o.value], o.name, o.order, o.to});
}

}  // namespace

plan::Plan compile(std::span<const NamedGraph> functions, const Options& options, const std::function<bool(std::string_view, double)>& progress) {
  auto report = [&](std::string_view stage, double fraction) {
    if (progress && !progress(stage, fraction)) fail(Code::cancelled, "the build was cancelled during {}", stage);
  };
  plan::Plan out;
  std::vector<uint32_t> first_origin;
  for (const NamedGraph& f : functions) {
    for (const Weight& w : f.graph.weights) {
      if (std::any_of(out.weights.begin(), out.weights.end(), [&](const plan::Weight& have) { return have.name == w.name; })) continue;
      plan::Weight p;
      p.name = w.name;
      const Type& t = f.graph.type(w.value);
      p.dtype = t.dtype;
      for (const Dim& d : t.dims) p.dims.push_back(d.value());
      p.tied_to = w.tied_to;
      p.data = w.data;
      p.bytes = w.bytes;
      p.keep = w.keep;
      out.weights.push_back(std::move(p));
    }
    first_origin.push_back(static_cast<uint32_t>(out.origins.size()));
    for (const Origin& o : f.graph.origins) out.origins.push_back({o.file, o.code, o.module, o.target, o.line});
  }
  report("split", 0.1);
  // What depends on weights alone is made once, by one prepare function for all.
  std::vector<Split> parts;
  Graph prepare;
  std::vector<int64_t> bytes;
  std::vector<uint32_t> order;
  std::vector<bool> packed;
  for (const NamedGraph& f : functions) {
    parts.push_back(split(f.graph, static_cast<uint32_t>(bytes.size())));
    for (const DerivedTensor& d : parts.back().derived) {
      out.derived.push_back({d.name, static_cast<uint64_t>(d.bytes)});
      order.push_back(static_cast<uint32_t>(order.size()));
      packed.push_back(d.packed);
      bytes.push_back(d.bytes);
    }
    append(prepare, parts.back().prepare);
  }
  report("prepare", 0.3);
  if (!out.derived.empty()) {
    FunctionCompiler compiler(prepare, places_of(prepare, out), {}, order, packed, bytes);
    out.prepare = compiler.run("prepare");
    // Sizes of the model do not occur here.
    out.prepare.symbols.clear();
  } else {
    out.prepare.name = "prepare";
  }
  for (size_t i = 0; i < functions.size(); ++i) {
    report(functions[i].name, 0.5 + 0.5 * static_cast<double>(i) / static_cast<double>(functions.size()));
    LeafPlaces leaves = places_of(parts[i].main, out);
    leaves.derived = parts[i].derived_leaf;
    FunctionCompiler compiler(parts[i].main, std::move(leaves), parts[i].packed_operand, {}, {}, bytes);
    plan::Function made = compiler.run(functions[i].name);
    for (plan::Step& s : made.steps) {
      if (s.origin != none_id) s.origin += first_origin[i];
    }
    for (plan::Check& c : made.checks) {
      if (c.origin != none_id) c.origin += first_origin[i];
    }
    made.graph = print(functions[i].graph);
    out.functions.push_back(std::move(made));
  }
  out.provenance = {{"producer", "ingot 0.1.0"}, {"target", options.text("target") == "auto" ? "cpu" : options.text("target")}};
  report("done", 1.0);
  return out;
}

}  // namespace ingot::compile
