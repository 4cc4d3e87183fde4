#include "pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/log.h"
#include "base/own_file.h"
#include "compile/compile.h"
#include "compile/passes/passes.h"
#include "lower/autocast.h"
#include "lower/lower.h"
#include "lower/outline.h"
#include "partition/partition.h"
#include "plan/describe.h"
#include "runtime/timing.h"

namespace ingot {

namespace {

// The level of INGOT_LOG: 0 for none, 1 for "info", 2 for "debug".
int log_level() {
  const char* level = std::getenv("INGOT_LOG");
  if (level == nullptr || *level == '\0') return 0;
  bool debug = std::strcmp(level, "debug") == 0;
  if (!debug && std::strcmp(level, "info") != 0)
    throw Error(Code::invalid_option, fmt::format("INGOT_LOG is \"{}\"; \"info\" or \"debug\" is needed", level)).fix("unset it to hear nothing");
  return debug ? 2 : 1;
}

void report(std::string_view stage, double seconds, const ir::Graph* g = nullptr) {
  int level = log_level();
  if (level == 0) return;
  bool debug = level == 2;
  std::string size = debug && g != nullptr ? fmt::format("  {} nodes", g->nodes.size()) : "";
  say(LogLevel::info, fmt::format("{:<24} {:8.2f} ms{}", stage, seconds * 1e3, size));
}

// Reports and dumps the graphs after passes. They are numbered in their order.
class Stages {
 public:
  void dump(std::string_view name, const ir::Graph& g) {
    const char* folder = std::getenv("INGOT_DUMP");
    if (folder == nullptr || *folder == '\0') return;
    const std::string path = fmt::format("{}/{:02}_{}.txt", folder, number_++, name);
    std::error_code ignored;  // writing the file reports it
    std::filesystem::create_directories(folder, ignored);
    try {
      write_atomically(path, ir::print(g));
    } catch (const Error& e) {
      throw Error(Code::io, "INGOT_DUMP: " + e.message).fix("name a folder that can be written, or unset INGOT_DUMP");
    }
  }
  // `part`: the function and the target that the pass ran for, if there are several.
  void after_pass(std::string_view part, std::string_view pass, double seconds, const ir::Graph& g) {
    report(pass, seconds, &g);
    dump(part.empty() ? std::string(pass) : fmt::format("{}_{}", part, pass), g);
  }
  // For compile(), which runs its passes for each of these functions and targets.
  compile::PassObserver of_compile(size_t functions, size_t targets) {
    return [this, functions, targets](std::string_view function, const Target& target, std::string_view pass, double seconds, const ir::Graph& g) {
      std::string part(functions > 1 ? function : "");
      if (targets > 1) part += (part.empty() ? "" : "_") + target.text();
      after_pass(part, pass, seconds, g);
    };
  }

 private:
  int number_ = 0;
};

void check_disabled_passes() {
  std::vector<ir::PassInfo> all(lower::passes().begin(), lower::passes().end());
  all.insert(all.end(), compile::passes().begin(), compile::passes().end());
  ir::check_disabled(all);
}

// A timed build for the device at hand: a GPU if the plan is for one, else the CPU. The timings go into the plan; without them it is slower, not wrong.
class TimedBuild {
 public:
  // `compile` compiles the plan with the known timings of the device.
  TimedBuild(const compile::Options& options, std::function<plan::Plan(compile::Timed*)> compile)
      : compile_(std::move(compile)), seconds_(options.number("build_seconds")), path_(options.text("timing_cache")) {
    const std::string& device = options.text("device");
    const std::vector<Target> targets = options.targets();
    const bool gpu = std::any_of(targets.begin(), targets.end(), [](const Target& t) { return t.kind == Target::Kind::cuda; });
    device_ = !gpu ? "cpu" : device.starts_with("cuda") ? device : "cuda";
  }

  plan::Plan run() {
    if (seconds_ <= 0 && path_.empty()) return compile_(nullptr);
    if (!path_.empty()) known_ = read_timings(path_, &refused_);
    if (!refused_.empty()) {
      say_once("timing_cache: " + refused_);
      path_.clear();
    }
    compile::Timed timed{known_here(), has_device_ && seconds_ > 0};
    plan::Plan plan = compile_(&timed);
    std::vector<Timing> found;
    const std::optional<size_t> target = time(plan, timed.steps, found);
    const bool has_rivals = std::any_of(timed.steps.begin(), timed.steps.end(), [](const plan::TimedStep& t) { return t.ways.size() > 1; });
    if (has_rivals) {
      add(timed.known, found);
      timed = {std::move(timed.known), false};
      plan = compile_(&timed);
    }
    if (target) add(plan.targets[*target].timings, found);
    return plan;
  }

 private:
  // Timings in the cache that are for this device and its library.
  std::vector<Timing> known_here() {
    std::vector<Timing> here;
    try {
      const std::string machine = runtime::machine(device_);
      has_device_ = true;
      std::copy_if(known_.begin(), known_.end(), std::back_inserter(here), [&](const Timing& t) { return t.machine == machine; });
    } catch (const Error& e) {
      if (!is_of_device(e)) throw;  // time() reports errors of the device
    }
    return here;
  }
  static bool is_of_device(const Error& e) { return e.code == Code::device || e.code == Code::version || e.code == Code::out_of_memory; }

  // Times the steps on the device, if there is one. Returns the plan's target that was timed.
  std::optional<size_t> time(const plan::Plan& plan, std::span<const plan::TimedStep> steps, std::vector<Timing>& found) {
    auto start = std::chrono::steady_clock::now();
    std::optional<size_t> target;
    try {
      const runtime::Placement place = runtime::place(plan, device_);
      const bool debug = log_level() == 2;
      found = runtime::time(plan, place, steps, known_, seconds_, [&](const runtime::Measured& m) {
        if (debug) say(LogLevel::debug, fmt::format("timed {:9.2f} us  {} {}: {}", m.seconds * 1e6, m.implementation, m.choice, m.problem));
      });
      target = place.target;
    } catch (const Error& e) {
      if (!is_of_device(e)) throw;
      if (log_level() > 0) say(LogLevel::info, fmt::format("nothing is timed: {}", e.message));
      return std::nullopt;
    }
    bool more = std::any_of(found.begin(), found.end(), [&](const Timing& t) { return std::find(known_.begin(), known_.end(), t) == known_.end(); });
    try {
      if (more && !path_.empty()) add_to_file(path_, found);
    } catch (const Error& e) {  // the plan is good even if the file cannot be written
      say_once("timing_cache: " + e.message);
    }
    report(fmt::format("timed {} products", found.size()), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return target;
  }

  std::function<plan::Plan(compile::Timed*)> compile_;
  double seconds_;
  std::string path_, device_, refused_;
  std::vector<Timing> known_;
  bool has_device_ = false;
};

// Which calls the operator table refuses, and where the others run. A definition may refuse a call in a segment that it takes in the whole graph, since the
// segment lacks nodes around it; such a call stays in torch too.
struct Choice {
  std::vector<partition::Refused> refused;
  partition::Settings settings;
  partition::Partition partition;
};

// Per node of an extracted segment: its node in the whole graph.
std::vector<ir::NodeId> originals(const ir::Graph& part, const partition::Segment& s) {
  size_t calls = 0;
  std::vector<ir::NodeId> original(part.nodes.size(), ir::none_id);
  for (size_t n = 0; n < part.nodes.size(); ++n) {
    if (part.nodes[n].op == ir::Op::call && calls < s.nodes.size()) original[n] = s.nodes[calls++];  // permutations of results follow
  }
  return original;
}

Choice choose(const ir::Graph& g, const compile::Options& options) {
  Choice c;
  c.settings = {options.integer("min_block_size"), options.list("torch_executed_ops"), options.list("torch_executed_modules"), compile::machine_of(Target(), options)};
  auto refuse = [&](lower::SizesFromData data) {
    c.refused.clear();
    for (lower::Missing& m : lower::missing_operators(g, data)) c.refused.push_back({m.node, std::move(m.reason)});
    for (lower::Missing& m : lower::kernels_not_for(g, options.targets())) c.refused.push_back({m.node, std::move(m.reason)});
  };
  // Engines read sizes from data only if the whole model runs in one. Between segments torch reads them.
  refuse(lower::SizesFromData::refused);
  if (!c.refused.empty()) {
    refuse(lower::SizesFromData::allowed);
    c.partition = partition::partition(g, c.refused, c.settings);
    if (c.partition.whole) return c;
    refuse(lower::SizesFromData::refused);
  }
  for (;;) {
    c.partition = partition::partition(g, c.refused, c.settings);
    if (c.partition.whole) return c;
    size_t before = c.refused.size();
    for (const partition::Segment& s : c.partition.segments) {
      ir::Graph part = partition::extract(g, s);
      const std::vector<ir::NodeId> original = originals(part, s);
      for (lower::Missing& m : lower::missing_operators(part, lower::SizesFromData::refused)) {
        if (original[m.node] != ir::none_id) c.refused.push_back({original[m.node], std::move(m.reason)});
      }
    }
    if (c.refused.size() == before) return c;
    std::stable_sort(c.refused.begin(), c.refused.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
  }
}

using Progress = std::function<bool(std::string_view, double)>;

// Maps the progress of a stage to this range of the build's.
Progress between(const Progress& progress, double from, double to) {
  if (!progress) return {};
  return [&progress, from, to](std::string_view stage, double fraction) { return progress(stage, from + (to - from) * fraction); };
}

std::optional<lower::Autocast> autocast_of(const compile::Options& options) {
  const std::optional<ir::DType> type = compile::autocast_type(options.text("autocast"));
  if (!type) return std::nullopt;
  return lower::Autocast{*type, options.list("autocast_exclude")};
}

ir::Graph lowered(ir::Graph captured, const compile::Options& options, std::string_view name, Stages& stages, const Progress& progress) {
  if (const auto settings = autocast_of(options)) {
    captured = lower::autocast(captured, *settings).graph;
    stages.dump(name.empty() ? "autocast" : fmt::format("{}_autocast", name), captured);
  }
  double done = 0;
  ir::Graph g = lower::lower(captured, [&](std::string_view pass, double seconds, const ir::Graph& g) {
    stages.after_pass(name, pass, seconds, g);
    done += 1 / static_cast<double>(lower::passes().size() + 1);
    if (progress && !progress(pass, std::min(done, 1.0))) fail(Code::cancelled, "the build was cancelled after {}", pass);
  });
  if (options.text("rounding") == "eager") lower::round_results(g);
  return g;
}

// The effect of autocast on each call of an engine.
partition::Precisions precisions(const ir::Graph& g, const Choice& c, const compile::Options& options) {
  partition::Precisions out;
  const auto settings = autocast_of(options);
  if (!settings) return out;
  out.type = ir::torch_name_of(settings->type);
  out.nodes.resize(g.nodes.size());
  out.unused = lower::names_nothing(g, settings->exclude);
  auto note = [&](const lower::Cast& cast, const std::function<ir::NodeId(size_t)>& original) {
    out.casts += cast.casts;
    for (size_t n = 0; n < cast.nodes.size(); ++n) {
      if (const ir::NodeId id = original(n); id != ir::none_id) out.nodes[id] = {cast.nodes[n].low, cast.nodes[n].reason};
    }
  };
  if (c.partition.whole) note(lower::autocast(g, *settings), [](size_t n) { return static_cast<ir::NodeId>(n); });
  for (const partition::Segment& s : c.partition.segments) {
    if (c.partition.whole) break;
    const ir::Graph part = partition::extract(g, s);
    const std::vector<ir::NodeId> original = originals(part, s);
    note(lower::autocast(part, *settings), [&](size_t n) { return original[n]; });
  }
  return out;
}

// The options with which a plan was compiled.
compile::Options options_of(const plan::Plan& plan) {
  compile::Options options;
  for (const auto& [name, value] : plan.provenance) {
    if (name == "producer" || name == "target") continue;
    // Other options name files or time limits, which no plan may set.
    for (const compile::Option& o : compile::option_table()) {
      if (o.name == name && !changes_plan(o.kind)) fail(Code::format, "the plan says it was compiled with option \"{}\", which changes no plan", name);
    }
    try {
      options.set(name, value);
    } catch (const Error& e) {
      throw Error(Code::version, "the plan was compiled with an option that this ingot does not know: " + e.message)
          .fix("update ingot, or compile the model again with this version");
    }
  }
  return options;
}

// Names of registered kernels, also in nested graphs.
void add_external_kernels(const ir::Graph& g, std::vector<std::string>& found) {
  for (const ir::Node& n : g.nodes) {
    if (n.op == ir::Op::external) found.push_back(n.attributes.string("name"));
    if (n.op != ir::Op::branch && n.op != ir::Op::loop) continue;
    for (const ir::GraphRef& inner : n.attributes.graphs("graphs")) add_external_kernels(*inner, found);
  }
}
std::vector<std::string> external_kernels(std::span<const compile::NamedGraph> functions) {
  std::vector<std::string> found;
  for (const compile::NamedGraph& f : functions) add_external_kernels(f.graph, found);
  return found;
}

// Checks that the plan's graph gives the plan's inputs, results and states.
void same_bindings(const plan::Function& a, const plan::Function& b) {
  auto dims = [](const plan::Function& f, const plan::Binding& x) {
    std::string s;
    for (plan::SizeRef d : x.dims) s += plan::size_text(f, d) + ",";
    return s;
  };
  bool same = std::equal(a.bindings.begin(), a.bindings.end(), b.bindings.begin(), b.bindings.end(), [&](const plan::Binding& x, const plan::Binding& y) {
    return x.kind == y.kind && x.name == y.name && x.dtype == y.dtype && x.written == y.written && x.order == y.order && dims(a, x) == dims(b, y);
  });
  if (!same) fail(Code::format, "function \"{}\" of the plan does not take and give what its graph does", a.name);
}

}  // namespace

plan::Plan build(const capture::Model& model, const compile::Options& options, const std::function<bool(std::string_view, double)>& progress) {
  auto now = [] { return std::chrono::steady_clock::now(); };
  if (options.text("dryrun") != "false") throw Error(Code::invalid_option, "with dryrun nothing is built").fix("ingot_explain gives the report");
  if (options.number("accuracy") > 0)
    throw Error(Code::invalid_option, "option accuracy is measured against the model itself, which runs in torch")
        .fix("ingot.compile(model, ..., accuracy=...) in Python, which leaves what it found in the plan");
  if (progress && !progress("lower", 0)) fail(Code::cancelled, "the build was cancelled");
  check_disabled_passes();
  Stages stages;
  stages.dump("captured", model.graph);
  std::vector<compile::NamedGraph> functions;
  constexpr double lowering = 0.3;  // of a build
  if (options.text("fallback") == "error") {
    for (const char* name : {"torch_executed_ops", "torch_executed_modules"}) {
      if (!options.list(name).empty())
        throw Error(Code::invalid_option, fmt::format("{} keeps operators in torch, and fallback=\"error\" lets none run there", name)).fix("leave one of them out");
    }
    functions.push_back({"forward", lowered(model.graph, options, "", stages, between(progress, 0, lowering))});  // refuses everything that is missing at once
  } else {
    auto start = now();
    Choice c = choose(model.graph, options);
    report("partition", std::chrono::duration<double>(now() - start).count());
    if (c.partition.segments.empty() && !c.partition.whole)
      fail(Code::unsupported, "no part of the model gains by an engine:\n{}", partition::report_text(model.graph, c.partition, c.refused, c.settings));
    if (c.partition.whole) {
      functions.push_back({"forward", lowered(model.graph, options, "", stages, between(progress, 0, lowering))});
    } else {
      const double each = lowering / static_cast<double>(c.partition.segments.size());
      for (size_t i = 0; i < c.partition.segments.size(); ++i) {
        std::string name = fmt::format("segment_{}", i);
        const Progress part = between(progress, each * static_cast<double>(i), each * static_cast<double>(i + 1));
        functions.push_back({name, lowered(partition::extract(model.graph, c.partition.segments[i]), options, name, stages, part)});
      }
    }
  }
  auto start = now();
  lower::outline(functions);
  compile::Record record;
  const bool debug = log_level() == 2;
  double compiled = lowering;
  return TimedBuild(options,
                    [&](compile::Timed* timed) {
                      record.decisions.clear();
                      plan::Plan plan = compile::compile(functions, options, between(progress, compiled, 1), debug ? &record : nullptr, timed,
                                                         stages.of_compile(functions.size(), options.targets().size()));
                      compiled = 1;
                      if (debug) say(LogLevel::debug, fmt::format("decisions\n{}", std::string_view(record.decisions).substr(0, record.decisions.find_last_not_of('\n') + 1)));
                      plan.signature = model.signature;
                      plan::verify(plan);
                      report("compile", std::chrono::duration<double>(now() - start).count());
                      start = now();
                      return plan;
                    })
      .run();
}

plan::Plan rebuild(const plan::Plan& old, std::span<const Target> targets, compile::Record* record) {
  auto start = std::chrono::steady_clock::now();
  std::string names;
  for (const Target& t : targets) names += (names.empty() ? "" : ",") + t.text();
  auto weight_named = [&](std::string_view name) { return std::find_if(old.weights.begin(), old.weights.end(), [&](const plan::Weight& w) { return w.name == name; }); };
  std::vector<compile::NamedGraph> functions;
  // Functions that regions run are compiled with the graph that has the regions.
  std::vector<bool> called(old.functions.size(), false);
  for (const plan::Function& f : old.functions) {
    for (const plan::Region& r : f.regions) {
      for (const plan::Call& c : r.calls) called[c.function] = true;
    }
  }
  for (const plan::Function& f : old.functions) {
    if (called[static_cast<size_t>(&f - old.functions.data())]) continue;
    ir::Graph& g = functions.emplace_back(f.name, ir::parse(f.graph)).graph;
    g.fill_weights([&](ir::Weight& w, const ir::Type& type) {
      auto found = weight_named(w.name);
      if (found == old.weights.end()) fail(Code::format, "the plan's graph has a weight \"{}\", which the plan has not", w.name);
      bool numbers = std::all_of(type.dims.begin(), type.dims.end(), [](const ir::Dim& d) { return d.is_constant(); });
      if (!numbers) fail(Code::format, "weight \"{}\" of the plan's graph has sizes that vary", w.name);
      w.data = found->data;
      w.bytes = found->bytes;
      w.keep = found->keep;
    });
  }
  if (record == nullptr || record->device_code) plan::check_external(old, external_kernels(functions));  // otherwise nothing that is compiled here runs
  lower::outline(functions);
  if (functions.size() != old.functions.size()) fail(Code::format, "the plan's graphs give {} functions, the plan has {}", functions.size(), old.functions.size());
  compile::Options options = options_of(old);
  options.set("target", names);
  // For a target that was timed, known timings choose again.
  compile::Timed timed;
  for (const plan::ForTarget& t : old.targets) {
    if (std::find(targets.begin(), targets.end(), t.target) != targets.end()) add(timed.known, t.timings);
  }
  check_disabled_passes();
  plan::Plan made;
  try {
    made = compile::compile(functions, options, {}, record, &timed);
  } catch (Error& e) {
    e.message = fmt::format("the plan has no program for {}{}, and none could be compiled from its graph: {}", names, old.outdated ? " that this ingot runs" : "", e.message);
    throw;
  }
  for (plan::Weight& w : made.weights) {
    const plan::Weight& given = *weight_named(w.name);
    if (given.dtype != w.dtype || given.dims != w.dims || given.order != w.order) fail(Code::format, "weight \"{}\" of the plan is not what its graph reads", w.name);
    w = given;
  }
  for (plan::ForTarget& t : made.targets) {
    const auto same = std::find_if(old.targets.begin(), old.targets.end(), [&](const plan::ForTarget& o) { return o.target == t.target; });
    if (same != old.targets.end()) t.timings = same->timings;
  }
  made.signature = old.signature;
  made.values = old.values;
  made.file = old.file;
  made.signer = old.signer;
  made.runs_external = old.runs_external;
  plan::verify(made);
  // With another graph, programs would run with memory of other sizes.
  for (size_t i = 0; i < made.functions.size(); ++i) same_bindings(old.functions[i], made.functions[i]);
  report(fmt::format("{}: compiled for {}", old.outdated ? "programs of another version" : "no program for this GPU", names),
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return made;
}

std::string verify_steps(const std::shared_ptr<const plan::Plan>& plan, size_t function, std::span<const runtime::HostTensor> inputs, verification::Settings settings) {
  const size_t t = runtime::place(*plan, settings.device).target;
  const Target& target = plan->targets[t].target;
  compile::Record record;
  record.device_code = false;
  const plan::Plan anew = rebuild(*plan, {&target, 1}, &record);
  if (plan::print_programs(anew, 0) != plan::print_programs(*plan, t)) {
    throw Error(Code::version, fmt::format("the plan's program for {} is not what this ingot compiles from its graph, so its steps cannot be matched", target.text()))
        .fix("verify it with the ingot that compiled it, or compile the model again");
  }
  const compile::Options options = options_of(*plan);
  const bool convolves = std::any_of(anew.functions.begin(), anew.functions.end(), [](const plan::Function& f) {
    const ir::Graph g = ir::parse(f.graph);
    return std::any_of(g.nodes.begin(), g.nodes.end(), [](const ir::Node& n) { return ir::is_convolution(n); });
  });
  settings.tf32 = compile::products_by_tf32(options) || (convolves && compile::convolutions_by_tf32(options));
  verification::Verifier verifier(plan, record, settings);
  std::vector<verification::StepError> steps = verifier.prepare();
  if (!settings.stop || std::none_of(steps.begin(), steps.end(), [](const verification::StepError& e) { return e.over(); })) {
    for (verification::StepError& e : verifier.function(function, inputs)) steps.push_back(std::move(e));
  }
  return verification::to_json(target.text(), steps);
}

std::string explain(const capture::Model& model, const compile::Options& options) {
  Choice c = choose(model.graph, options);
  return partition::report_json(model.graph, c.partition, c.refused, c.settings, precisions(model.graph, c, options));
}

}  // namespace ingot
