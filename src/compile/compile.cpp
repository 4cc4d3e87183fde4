#include "compile/compile.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "backend/compiler.h"
#include "base/error.h"
#include "compile/function.h"
#include "compile/passes/passes.h"
#include "compile/regions.h"
#include "compile/split.h"

namespace ingot::compile {

using namespace ir;

namespace {

using WeightsByName = std::unordered_map<std::string_view, uint32_t>;

WeightsByName by_name(const plan::Plan& plan) {
  WeightsByName places;
  for (uint32_t i = 0; i < plan.weights.size(); ++i) places.emplace(plan.weights[i].name, i);
  return places;
}

// Maps a graph's weights to the plan's. Derived tensors are filled in later.
LeafPlaces places_of(const Graph& g, const WeightsByName& in_plan) {
  LeafPlaces places{std::vector<uint32_t>(g.values.size(), none_id), std::vector<uint32_t>(g.values.size(), none_id)};
  for (const Weight& w : g.weights) {
    if (auto found = in_plan.find(w.name); found != in_plan.end()) places.weight[w.value] = found->second;
  }
  return places;
}

// Merges the prepare graphs of all functions into one; weights of one name are one.
class Prepare {
 public:
  Graph graph;

  void add(const Graph& from) {
    auto first_origin = static_cast<OriginId>(graph.origins.size());
    graph.origins.insert(graph.origins.end(), from.origins.begin(), from.origins.end());
    std::vector<ValueId> renamed(from.values.size(), none_id);
    for (const Node& node : from.nodes) {
      if (node.op == Op::weight) {
        const Weight& w = *from.weight_of(node.out[0]);
        auto [found, made] = weights_.try_emplace(w.name, none_id);
        if (made) found->second = graph.add_weight(w, from.type(w.value));
        renamed[w.value] = found->second;
        continue;
      }
      std::vector<ValueId> in;
      for (ValueId v : node.in) in.push_back(renamed[v]);
      std::vector<Type> types;
      for (ValueId v : node.out) types.push_back(from.type(v));
      graph.current_origin = node.origin == none_id ? none_id : node.origin + first_origin;
      NodeId id = graph.add_node(node.op, std::move(in), node.attributes, std::move(types));
      for (size_t i = 0; i < node.out.size(); ++i) renamed[node.out[i]] = graph.nodes[id].out[i];
    }
    graph.current_origin = none_id;
    for (const Output& o : from.outputs) graph.outputs.push_back({renamed[o.value], o.name, o.order, o.to});
  }

 private:
  std::unordered_map<std::string, ValueId> weights_;
};

// Adds the weights and origins of all functions. Returns the first origin of each function.
std::vector<uint32_t> add_weights(plan::Plan& out, std::span<const NamedGraph> functions) {
  std::vector<uint32_t> first_origin;
  std::unordered_set<std::string_view> have;
  for (const NamedGraph& f : functions) {
    for (const Weight& w : f.graph.weights) {
      if (!have.insert(w.name).second) continue;
      plan::Weight p;
      p.name = w.name;
      p.dtype = f.graph.type(w.value).dtype;
      for (const Dim& d : f.graph.given_dims(w)) p.dims.push_back(d.value());
      p.order.assign(w.order.begin(), w.order.end());
      p.tied_to = w.tied_to;
      p.data = w.data;
      p.bytes = w.bytes;
      p.keep = w.keep;
      out.weights.push_back(std::move(p));
    }
    first_origin.push_back(static_cast<uint32_t>(out.origins.size()));
    if (f.regions) continue;  // its weights belong to the functions that it calls
    for (const Origin& o : f.graph.origins) out.origins.push_back({o.file, o.code, o.module, o.target, o.line});
  }
  return first_origin;
}

// Adds the programs of all functions for one target, its prepare function and its device code.
void add_target(plan::Plan& out, std::span<const NamedGraph> functions, const Backend& backend, const std::vector<uint32_t>& first_origin,
                const std::function<void(std::string_view, double)>& report, Record* record, Timed* timed, const PassObserver& observe) {
  const backend::Compiler& compiler = backend::compiler_for(backend.target);
  compiler.check(backend.target, backend.settings);
  plan::ForTarget made;
  made.target = backend.target;
  made.prepare.name = "prepare";
  // One prepare function computes what depends on weights alone, for all functions.
  std::vector<Split> parts;
  Prepare prepare;
  std::vector<DerivedTensor> derived;
  for (const NamedGraph& f : functions) {
    if (f.regions) {
      parts.emplace_back();
      continue;
    }
    Graph graph = f.graph;
    auto after_pass = [&](std::string_view pass, double seconds, const Graph& g) {
      if (observe) observe(f.name, backend.target, pass, seconds, g);
    };
    run_passes(graph, passes(), after_pass, backend);
    parts.push_back(split(graph, backend, static_cast<uint32_t>(derived.size())));
    for (const DerivedTensor& d : parts.back().derived) {
      made.derived.push_back({d.name, static_cast<uint64_t>(d.bytes)});
      derived.push_back(d);
    }
    prepare.add(parts.back().prepare);
  }
  report("prepare", 0.3);
  if (record != nullptr) record->prepare = {}, record->functions.clear();
  const WeightsByName in_plan = by_name(out);
  std::vector<backend::CodeUnit> code;
  Record::Program ignored;
  auto add = [&](const Context& context, plan::Function& function, Record::Program& noted, std::vector<plan::TimedStep>* steps = nullptr) {
    CompiledFunction compiled = compile_function(context);
    for (ScheduledStep& s : compiled.schedule.steps) {
      if (timed == nullptr || !timed->rivals || s.considered.timed) s.rivals.clear();
    }
    if (record != nullptr) {
      noted = {context.graph, context.leaves.derived, {}};
      for (const ScheduledStep& s : compiled.schedule.steps) noted.steps.push_back(s.results);
      record->decisions += fmt::format("{} for {}: storage\n{}{} for {}: steps and offers\n{}", function.name, backend.target.text(), print(compiled.storage), function.name,
                                       backend.target.text(), print(compiled.schedule, context.graph));
    }
    for (backend::CodeUnit& u : emit(std::move(compiled), function, steps)) code.push_back(std::move(u));
  };
  if (!made.derived.empty()) {
    add(Context({prepare.graph, backend, places_of(prepare.graph, in_plan), derived, {}, true}), made.prepare, record != nullptr ? record->prepare : ignored);
  } else {
    made.prepare.programs.resize(1);
  }
  for (size_t i = 0; i < functions.size(); ++i) {
    report(functions[i].name, 0.5 + 0.4 * static_cast<double>(i) / static_cast<double>(functions.size()));
    if (functions[i].regions) {
      out.functions[i].programs.emplace_back();
      if (record != nullptr) record->functions.emplace_back();
      continue;
    }
    LeafPlaces leaves = places_of(parts[i].main, in_plan);
    leaves.derived = parts[i].derived_leaf;
    std::vector<plan::TimedStep> steps;
    add(Context({parts[i].main, backend, std::move(leaves), derived, parts[i].packed_operand}), out.functions[i], record != nullptr ? record->functions.emplace_back() : ignored,
        timed != nullptr ? &steps : nullptr);
    for (plan::TimedStep& s : steps) {
      s.target = out.targets.size();
      s.function = i;
      timed->steps.push_back(std::move(s));
    }
    for (plan::Step& s : out.functions[i].programs.back().steps) {
      if (s.origin != none_id) s.origin += first_origin[i];
    }
  }
  report("code", 0.9);
  if (record != nullptr && !record->device_code) code.clear();
  for (backend::DeviceCode& c : compiler.compile(code, backend.target)) {
    auto form = c.portable ? plan::DeviceCode::Form::portable : plan::DeviceCode::Form::machine;
    made.code.push_back({form, static_cast<uint32_t>(c.architecture), std::move(c.kernels), std::move(c.image)});
  }
  out.targets.push_back(std::move(made));
}

}  // namespace

plan::Plan compile(std::span<const NamedGraph> functions, const Options& options, const std::function<bool(std::string_view, double)>& progress, Record* record, Timed* timed,
                   const PassObserver& observe) {
  const std::vector<Target> targets = options.targets();
  size_t done = 0;
  auto report = [&](std::string_view stage, double fraction) {
    double all = (static_cast<double>(done) + fraction) / static_cast<double>(targets.size());
    if (progress && !progress(stage, all)) fail(Code::cancelled, "the build was cancelled during {}", stage);
  };
  plan::Plan out;
  std::vector<uint32_t> first_origin = add_weights(out, functions);
  for (const NamedGraph& f : functions) out.functions.emplace_back().name = f.name;
  const std::shared_ptr<ForcedOffer> forced = forced_offer();
  for (; done < targets.size(); ++done) {
    report("split", 0.1);
    Backend backend = backend_for(targets[done], options);
    backend.forced = forced;
    if (timed != nullptr) {
      backend.known = timed->known;
      backend.settings.rivals = timed->rivals || !timed->known.empty();
    }
    if (forced != nullptr) backend.settings.rivals = true;  // an implementation that is only a little slower can be forced too
    add_target(out, functions, backend, first_origin, report, record, timed, observe);
  }
  if (forced != nullptr) compile::report(*forced);
  for (size_t i = 0; i < functions.size(); ++i) {
    for (plan::Check& c : out.functions[i].checks) {
      if (c.origin != none_id) c.origin += first_origin[i];
    }
    out.functions[i].graph = print(functions[i].graph);
  }
  for (size_t i = functions.size(); i-- > 0;) {  // callees first
    if (functions[i].regions) emit_regions(functions[i], i, out);
  }
  std::string names;
  for (const Target& t : targets) names += (names.empty() ? "" : ",") + t.text();
  out.provenance = {{"producer", std::string(producer)}, {"target", names}};
  for (const Option& o : option_table()) {
    if (changes_plan(o.kind) && o.name != "target" && options.text(o.name) != o.default_text) out.provenance.emplace_back(o.name, options.text(o.name));
  }
  if (options.text("weights") == "strip") out.values = plan::Values::left_out;
  --done;
  report("done", 1.0);
  return out;
}

}  // namespace ingot::compile
