#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "command.h"

namespace ingot::cli {

namespace {

struct RefitArguments {
  Source plan;
  std::vector<std::string> weights, adapters;
  std::string output;
  bool allow_missing = false;
};

// "FILE" or "FILE:SCALE": the part after the last colon is a scale if it is a number.
std::pair<std::string, double> adapter(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text, 1.0};
  char* end = nullptr;
  const double scale = std::strtod(text.c_str() + colon + 1, &end);
  if (end == text.c_str() + colon + 1 || *end != '\0') return {text, 1.0};
  if (!std::isfinite(scale)) throw Failure{usage, "--lora " + text + ": the scale is not a finite number"};
  return {text.substr(0, colon), scale};
}

void refit(const RefitArguments& a) {
  if (a.weights.empty() && a.adapters.empty()) throw Failure{usage, "ingot refit needs files of weights, or --lora"};
  const Plan plan = load_plan(a.plan);
  std::vector<const char*> weights;
  for (const std::string& path : a.weights) weights.push_back(path.c_str());
  std::vector<std::pair<std::string, double>> named;
  for (const std::string& text : a.adapters) named.push_back(adapter(text));
  std::vector<ingot_adapter> adapters;
  for (const auto& [path, scale] : named) adapters.push_back({path.c_str(), scale});
  ingot_plan* made = nullptr;
  check(ingot_plan_refit(plan.get(), weights.data(), weights.size(), adapters.data(), adapters.size(), a.allow_missing, &made));
  const Plan owned(made);
  check(ingot_plan_save(made, a.output.c_str()));
  size_t count = 0;
  check(ingot_plan_weight_count(made, &count));
  std::printf("%s: %zu weights\n", a.output.c_str(), count);
}

}  // namespace

void add_refit(CLI::App& app) {
  auto a = std::make_shared<RefitArguments>();
  CLI::App* verb = app.add_subcommand("refit", "Write a plan with other weights, or with adapters added to them; nothing is compiled.");
  a->plan.add_to(*verb);
  verb->add_option("weights", a->weights, "safetensors files with the weights by state-dict name; none: those of the plan");
  verb->add_option("-o,--output", a->output, "the new plan")->required();
  verb->add_option("--lora", a->adapters, "FILE[:SCALE]: a LoRA adapter in safetensors, or its folder; may be given several times")->take_all();
  verb->add_flag("--allow-missing", a->allow_missing, "weights that no file has keep the plan's values");
  verb->callback([a] { refit(*a); });
}

}  // namespace ingot::cli
