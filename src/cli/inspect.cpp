#include <simdjson.h>

#include <cstdio>

#include "command.h"

namespace ingot::cli {

namespace {

struct InspectArguments {
  std::string plan, graph;
  std::string target;  // of --offers
  bool programs = false, offers = false, steps = false, memory = false, weights = false, json = false;
};

std::string dims_text(simdjson::dom::element dims) {
  std::string s = "[";
  for (auto d : simdjson::dom::array(dims)) {
    if (s.size() > 1) s += ", ";
    s += d.is_string() ? std::string(std::string_view(d)) : std::to_string(int64_t(d));
  }
  return s + "]";
}

// The axis order of a binding or weight; empty if row-major.
std::string order_text(simdjson::dom::element e) {
  auto order = e["order"];
  return order.error() == simdjson::SUCCESS ? ", axes in memory: " + dims_text(order.value()) : "";
}

void print_steps(simdjson::dom::element f) {
  int n = 0;
  for (auto s : simdjson::dom::array(f["steps"])) {
    std::string writes;
    for (auto w : simdjson::dom::array(s["writes"])) writes += " " + std::string(std::string_view(w["dtype"])) + dims_text(w["dims"]);
    std::printf("%4d  %-12s %-44s ->%s  %s\n", n++, std::string(std::string_view(s["kernel"])).c_str(), std::string(std::string_view(s["label"])).c_str(), writes.c_str(),
                std::string(std::string_view(s["origin"])).c_str());
  }
}

// Writes the graphs: to stdout as text for "-", else to a file in the format of its extension. With several functions, each
// gets its own file, or its part of the text.
void show_graph(const ingot_plan* plan, const std::string& to) {
  char* described = nullptr;
  check(ingot_plan_describe(plan, &described));
  const std::string json = take(described);
  simdjson::dom::parser parser;
  const simdjson::dom::array functions(parser.parse(json)["functions"]);
  const std::string format = to.ends_with(".svg") ? "svg" : to.ends_with(".dot") ? "dot" : to.ends_with(".onnx") ? "onnx" : "";
  if (to != "-" && format.empty()) throw Failure{usage, "--graph takes a path that ends in .svg, .dot or .onnx, or -, not \"" + to + "\""};
  uint32_t index = 0;
  for (auto f : functions) {
    char* text = nullptr;
    check(ingot_plan_graph(plan, index, &text));
    const std::string graph = take(text);
    if (to == "-") {
      if (index > 0) std::printf("\n# function %s\n", text_of(f["name"]).c_str());
      std::fputs(graph.c_str(), stdout);
    } else {
      uint8_t* drawn = nullptr;
      size_t count = 0;
      check(ingot_graph_draw(graph.c_str(), format.c_str(), &drawn, &count));
      const std::unique_ptr<uint8_t, void (*)(uint8_t*)> release(drawn, ingot_bytes_release);
      std::string path = to;
      if (functions.size() > 1) path.insert(path.size() - format.size() - 1, "." + text_of(f["name"]));
      const std::span<const std::byte> whole = std::as_bytes(std::span(drawn, count));
      write_file(path, {&whole, 1});
    }
    ++index;
  }
}

void inspect(const InspectArguments& a) {
  Plan plan = load_plan({a.plan});
  if (!a.graph.empty()) return show_graph(plan.get(), a.graph);
  if (a.programs || a.offers) {
    char* text = nullptr;
    check(a.offers ? ingot_plan_offers(plan.get(), a.target.empty() ? nullptr : a.target.c_str(), &text) : ingot_plan_programs(plan.get(), &text));
    std::fputs(take(text).c_str(), stdout);
    return;
  }
  char* text = nullptr;
  check(ingot_plan_describe(plan.get(), &text));
  std::string json = take(text);
  if (a.json) {
    std::puts(json.c_str());
    return;
  }
  simdjson::dom::parser parser;
  simdjson::dom::element document = parser.parse(json);
  for (auto f : simdjson::dom::array(document["functions"])) {
    std::printf("function %s\n", std::string(std::string_view(f["name"])).c_str());
    for (auto s : simdjson::dom::array(f["symbols"])) {
      std::printf("  size %s in %lld..%lld..%lld\n", std::string(std::string_view(s["name"])).c_str(), static_cast<long long>(int64_t(s["min"])),
                  static_cast<long long>(int64_t(s["opt"])), static_cast<long long>(int64_t(s["max"])));
    }
    for (const char* kind : {"inputs", "outputs"}) {
      for (auto b : simdjson::dom::array(f[kind])) {
        std::printf("  %s %s %s%s%s\n", std::string(kind, 6 - (kind[0] == 'i')).c_str(), std::string(std::string_view(b["name"])).c_str(),
                    std::string(std::string_view(b["dtype"])).c_str(), dims_text(b["dims"]).c_str(), order_text(b).c_str());
      }
    }
    simdjson::dom::array regions;
    if (f["regions"].get(regions) == simdjson::SUCCESS) {
      for (auto r : regions) {
        std::string line = "  " + text_of(r["kind"]) + ":";
        for (auto c : simdjson::dom::array(r["calls"])) line += " " + text_of(c);
        for (auto x : simdjson::dom::array(r["reads"])) line += ", then reads size " + text_of(x);
        std::puts(line.c_str());
      }
      continue;
    }
    for (auto p : simdjson::dom::array(f["programs"])) {
      std::printf("  on %s: %zu steps\n", std::string(std::string_view(p["target"])).c_str(), simdjson::dom::array(p["steps"]).size());
      if (a.steps) print_steps(p);
      if (!a.memory) continue;
      for (auto b : simdjson::dom::array(p["buffers"])) {
        std::printf("  buffer of %s bytes, steps %lld to %lld\n", std::string(std::string_view(b["bytes"])).c_str(), static_cast<long long>(int64_t(b["first"])),
                    static_cast<long long>(int64_t(b["last"])));
      }
    }
  }
  int64_t bytes = 0;
  for (auto w : simdjson::dom::array(document["weights"])) {
    bytes += int64_t(w["bytes"]);
    if (a.weights) std::printf("  weight %s %s%s%s\n", text_of(w["name"]).c_str(), text_of(w["dtype"]).c_str(), dims_text(w["dims"]).c_str(), order_text(w).c_str());
  }
  std::printf("weights: %zu, %.1f MB\n", simdjson::dom::array(document["weights"]).size(), static_cast<double>(bytes) / 1e6);
  for (auto kernel : simdjson::dom::array(document["external"])) std::printf("calls kernel %s, which is not ingot's: it runs with --trust code\n", text_of(kernel).c_str());
  if (const std::string signer = text_of(document["signer"]); !signer.empty()) std::printf("signed by %s, which was not checked\n", signer.c_str());
  for (auto t : simdjson::dom::array(document["targets"])) {
    simdjson::dom::array derived(t["derived"]);
    int64_t made = 0;
    for (auto d : derived) made += int64_t(d["bytes"]);
    std::printf("on %s: prepared from weights: %zu, %.1f MB; steps to prepare: %zu\n", text_of(t["name"]).c_str(), derived.size(), static_cast<double>(made) / 1e6,
                simdjson::dom::array(t["prepare"]["steps"]).size());
    if (a.steps) print_steps(t["prepare"]);
    for (auto c : simdjson::dom::array(t["code"])) {
      std::printf("  %s of sm_%lld: %lld kernels, %lld bytes\n", std::string(std::string_view(c["form"])).c_str(), static_cast<long long>(int64_t(c["architecture"])),
                  static_cast<long long>(int64_t(c["kernels"])), static_cast<long long>(int64_t(c["bytes"])));
    }
    simdjson::dom::array timings(t["timings"]);
    if (timings.size() > 0) std::printf("  timed: %zu products\n", timings.size());
    for (auto x : timings) {
      if (a.steps) std::printf("    %s for %s (%s)\n", text_of(x["choice"]).c_str(), text_of(x["problem"]).c_str(), text_of(x["machine"]).c_str());
    }
  }
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto a = std::make_shared<InspectArguments>();
  CLI::App* verb = app.add_subcommand("inspect", "Show what is in a plan.");
  verb->add_option("plan", a->plan, "the plan")->required();
  verb->add_option("--graph", a->graph, "the portable graph: out.svg draws it, out.dot is for Graphviz, out.onnx for viewers such as Netron, - or nothing prints its text")
      ->expected(0, 1)
      ->default_str("-");
  verb->add_flag("--programs", a->programs, "each target's buffers and steps in full: the layouts of all operands, sizes, a hash of the constants");
  CLI::Option* offers = verb->add_flag("--offers", a->offers, "what compiling decides: the values with memory, and each step's offers, costs and refusals");
  verb->add_option("--target", a->target, "what it would decide for this target")->needs(offers);
  verb->add_flag("--steps", a->steps, "the steps: kernel, what is fused, what is written, where in the model");
  verb->add_flag("--memory", a->memory, "scratch buffers and their lives");
  verb->add_flag("--weights", a->weights, "the weights");
  verb->add_flag("--json", a->json, "everything as JSON");
  verb->callback([a] { inspect(*a); });
}

}  // namespace ingot::cli
