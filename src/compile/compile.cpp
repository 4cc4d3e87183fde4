#include "compile/compile.h"

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

}  // namespace

plan::Plan compile(const Graph& canonical, const Options& options, const std::function<bool(std::string_view, double)>& progress) {
  auto report = [&](std::string_view stage, double fraction) {
    if (progress && !progress(stage, fraction)) fail(Code::cancelled, "the build was cancelled during {}", stage);
  };
  plan::Plan out;
  for (const Weight& w : canonical.weights) {
    plan::Weight p;
    p.name = w.name;
    const Type& t = canonical.type(w.value);
    p.dtype = t.dtype;
    for (const Dim& d : t.dims) p.dims.push_back(d.value());
    p.tied_to = w.tied_to;
    p.data = w.data;
    p.bytes = w.bytes;
    p.keep = w.keep;
    out.weights.push_back(std::move(p));
  }
  for (const Origin& o : canonical.origins) out.origins.push_back({o.file, o.code, o.module, o.target, o.line});
  report("split", 0.1);
  Split parts = split(canonical);
  std::vector<int64_t> bytes;
  std::vector<uint32_t> order;
  std::vector<bool> packed;
  for (const DerivedTensor& d : parts.derived) {
    out.derived.push_back({d.name, static_cast<uint64_t>(d.bytes)});
    order.push_back(static_cast<uint32_t>(order.size()));
    packed.push_back(d.packed);
    bytes.push_back(d.bytes);
  }
  report("prepare", 0.3);
  if (!parts.derived.empty()) {
    FunctionCompiler prepare(parts.prepare, places_of(parts.prepare, out), {}, order, packed, bytes);
    out.prepare = prepare.run("prepare");
    // Sizes of the model do not occur here.
    out.prepare.symbols.clear();
  } else {
    out.prepare.name = "prepare";
  }
  report("forward", 0.5);
  LeafPlaces leaves = places_of(parts.main, out);
  leaves.derived = parts.derived_leaf;
  FunctionCompiler forward(parts.main, std::move(leaves), parts.packed_operand, {}, {}, bytes);
  out.functions.push_back(forward.run("forward"));
  out.graph = print(canonical);
  out.provenance = {{"producer", "ingot 0.1.0"}, {"target", options.text("target") == "auto" ? "cpu" : options.text("target")}};
  report("done", 1.0);
  return out;
}

}  // namespace ingot::compile
