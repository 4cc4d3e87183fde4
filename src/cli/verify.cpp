#include <simdjson.h>

#include <cmath>
#include <cstdio>

#include "command.h"

namespace ingot::cli {

namespace {

struct VerifyArguments {
  Source plan;
  std::string device = "auto";
  std::vector<std::string> inputs, shapes;
  double bound = 0;
  int threads = 0;
  bool bytes = false, bisect = false, json = false;
};

// null is a number that is not finite.
std::string number(simdjson::dom::element e) {
  if (e.is_null()) return "not finite";
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", double(e));
  return text;
}

void print_step(simdjson::dom::element s, const std::string& function) {
  const bool compared = !s["dtype"].is_null();
  const std::string place = function + ":" + std::to_string(int64_t(s["step"]));
  std::printf("%-14s %-14s %-44s %10s %10s %s %s\n", place.c_str(), text_of(s["kernel"]).c_str(), text_of(s["label"]).c_str(), compared ? number(s["roundings"]).c_str() : "-",
              compared ? number(s["bound"]).c_str() : "-", bool(s["over"]) ? "OVER" : "    ", text_of(s["origin"]).c_str());
}

struct Tally {
  size_t steps = 0, over = 0;
  std::string first;
};

void verify_function(const VerifyArguments& a, uint32_t index, Tally& tally) {
  Runner runner(a.plan, a.threads, a.device, index);
  runner.fill(a.inputs, a.shapes);
  char* text = nullptr;
  check(ingot_plan_verify_steps(runner.plan.get(), index, runner.options.get(), runner.in.data(), runner.in.size(), a.bound, static_cast<int>(a.bisect), &text));
  const std::string json = take(text);
  if (a.json) std::puts(json.c_str());
  simdjson::dom::parser parser;
  simdjson::dom::element document = parser.parse(json);
  for (auto s : simdjson::dom::array(document["steps"])) {
    const std::string function = text_of(s["function"]);
    if (index > 0 && function == "prepare") continue;  // shown with the first function
    ++tally.steps;
    const bool over = bool(s["over"]);
    tally.over += over;
    if (over && tally.first.empty()) tally.first = function + ":" + std::to_string(int64_t(s["step"]));
    if (!a.json && (over || !a.bisect)) print_step(s, function);
  }
}

void verify(const VerifyArguments& a) {
  {
    const Plan whole = load_plan({a.plan.path, INGOT_TRUST_DATA});
    if (!a.json) std::puts("metadata and weights match their checksums");
  }
  if (a.bytes) return;
  const Plan plan = load_plan(a.plan);
  char* text = nullptr;
  check(ingot_plan_describe(plan.get(), &text));
  const std::string json = take(text);
  simdjson::dom::parser parser;
  simdjson::dom::element document = parser.parse(json);
  for (auto w : simdjson::dom::array(document["weights"])) {
    if (text_of(w["source"]) != "host") continue;
    if (!a.json) std::puts("its steps are not run: the values of its weights are not in the file");
    return;
  }
  const auto functions = static_cast<uint32_t>(simdjson::dom::array(document["functions"]).size());
  if (!a.json && !a.bisect) std::printf("%-14s %-14s %-44s %10s %10s      %s\n", "step", "kernel", "what it computes", "roundings", "bound", "where in the model");
  Tally tally;
  for (uint32_t f = 0; f < functions && (tally.over == 0 || !a.bisect); ++f) verify_function(a, f, tally);
  if (tally.over > 0)
    throw Failure{1, a.bisect ? "step " + tally.first + " is the first one that is over its bound"
                              : std::to_string(tally.over) + " of " + std::to_string(tally.steps) + " steps are over their bounds, the first one is " + tally.first};
  if (!a.json) std::printf("%zu steps agree with the reference\n", tally.steps);
}

}  // namespace

void add_verify(CLI::App& app) {
  auto a = std::make_shared<VerifyArguments>();
  CLI::App* verb = app.add_subcommand("verify", "Check every byte of a plan against its checksums, then what each of its steps computes against the reference.");
  a->plan.add_to(*verb);
  verb->add_flag("--bytes", a->bytes, "the checksums alone; nothing is run");
  verb->add_flag("--bisect", a->bisect, "name the first step that is over its bound, and stop there");
  verb->add_option("-i,--input", a->inputs, "NAME=file.npy or NAME=random:SEED; inputs not named are random");
  verb->add_option("--shape", a->shapes, "shape of a random input: NAME=2,16");
  verb->add_option("--against,--device", a->device, "which of the plan's programs: cpu, cuda, cuda:1, reference; auto = the CPU when the plan has a program for it");
  verb->add_option("--bound", a->bound, "roundings of a value's largest element that a step may be off; 0 = the usual ones (docs/verify.md)");
  verb->add_option("--threads", a->threads, "0 = all that may be used")->check(not_negative);
  verb->add_flag("--json", a->json, "the steps as JSON, a line for each function");
  verb->callback([a] { verify(*a); });
}

}  // namespace ingot::cli
