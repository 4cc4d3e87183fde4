#include "runtime/placement.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"

namespace ingot::runtime {

namespace {

constexpr std::string_view cuda_target = "cuda:sm_";

std::optional<int> number(std::string_view text) {
  int n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0) return std::nullopt;
  return n;
}

std::string targets_of(const plan::Plan& plan) {
  std::string s;
  for (const plan::Target& t : plan.targets) s += (s.empty() ? "" : ", ") + t.name;
  return s;
}

size_t cpu_target(const plan::Plan& plan) {
  for (size_t t = 0; t < plan.targets.size(); ++t) {
    if (plan.targets[t].name == "cpu") return t;
  }
  throw Error(Code::version, fmt::format("the plan has no program for the CPU: it was compiled for {}", targets_of(plan))).fix("compile the model with \"cpu\" among its targets");
}

// The target whose code this GPU runs: machine code of its own generation, or PTX that is not newer. The nearest one.
size_t gpu_target(const plan::Plan& plan, int architecture) {
  std::optional<size_t> best;
  int nearest = 0;
  for (size_t t = 0; t < plan.targets.size(); ++t) {
    const plan::Target& target = plan.targets[t];
    if (!target.name.starts_with(cuda_target)) continue;
    int sm = number(std::string_view(target.name).substr(cuda_target.size())).value_or(0);
    bool ptx = std::any_of(target.code.begin(), target.code.end(), [](const plan::DeviceCode& c) { return c.form == plan::DeviceCode::Form::ptx; });
    bool runs = sm <= architecture && (sm / 10 == architecture / 10 || ptx || target.code.empty());
    if (!runs || sm <= nearest) continue;
    best = t;
    nearest = sm;
  }
  if (best) return *best;
  throw Error(Code::version, fmt::format("the plan has no program for this GPU (sm_{}): it was compiled for {}", architecture, targets_of(plan)))
      .fix(fmt::format("compile the model with \"cuda:sm_{}\" among its targets (`ingot compile --set target=cuda:sm_{}`)", architecture, architecture));
}

}  // namespace

Placement place(const plan::Plan& plan, std::string_view device) {
  bool for_cpu = std::any_of(plan.targets.begin(), plan.targets.end(), [](const plan::Target& t) { return t.name == "cpu"; });
  if (device == "auto") device = for_cpu ? "cpu" : "cuda";
  if (device == "cpu") return {cpu_target(plan), std::shared_ptr<const backend::Backend>(&backend::cpu_backend(), [](const backend::Backend*) {})};
  std::optional<int> ordinal = device == "cuda" ? 0 : device.starts_with("cuda:") ? number(device.substr(5)) : std::nullopt;
  if (!ordinal) throw Error(Code::invalid_option, fmt::format("there is no device \"{}\"", device)).fix("the devices are \"cpu\", \"cuda\", \"cuda:1\" and so on, or \"auto\"");
  size_t target = gpu_target(plan, backend::cuda_architecture(*ordinal));
  std::vector<backend::CodeImage> code;
  for (const plan::DeviceCode& c : plan.targets[target].code) code.push_back({c.form == plan::DeviceCode::Form::ptx, c.architecture, c.kernels, c.image});
  return {target, backend::open_cuda(*ordinal, code)};
}

}  // namespace ingot::runtime
