#include "runtime/placement.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "base/error.h"

namespace ingot::runtime {

namespace {

std::optional<int> number(std::string_view text) {
  int n = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0) return std::nullopt;
  return n;
}

std::string targets_of(const plan::Plan& plan) {
  std::string s;
  for (const plan::ForTarget& t : plan.targets) s += (s.empty() ? "" : ", ") + t.target.text();
  return s;
}

size_t cpu_target(const plan::Plan& plan) {
  for (size_t t = 0; t < plan.targets.size(); ++t) {
    if (plan.targets[t].target.is_cpu()) return t;
  }
  throw Error(Code::version, fmt::format("the plan has no program for the CPU: it was compiled for {}", targets_of(plan))).fix("compile the model with \"cpu\" among its targets");
}

std::vector<backend::CodeImage> images(const plan::ForTarget& target) {
  std::vector<backend::CodeImage> out;
  for (const plan::DeviceCode& c : target.code) out.push_back({c.form == plan::DeviceCode::Form::ptx, c.architecture, c.kernels, c.image});
  return out;
}

// Steps of one kernel alone, products by a library, need no code of the plan's.
bool needs_code(const plan::Program& p) {
  return std::any_of(p.steps.begin(), p.steps.end(), [](const plan::Step& s) { return s.kernel != "matmul"; });
}

// Each kernel of the target's code is in some image that the GPU runs; without code there are no steps that need it.
bool has_code(const plan::Plan& plan, size_t t, int architecture) {
  const plan::ForTarget& target = plan.targets[t];
  if (!target.code.empty() && plan.code_from == plan::CodeFrom::elsewhere) return false;  // it is not run
  if (target.code.empty()) {
    return !needs_code(target.prepare.programs[0]) &&
           std::none_of(plan.functions.begin(), plan.functions.end(), [&](const plan::Function& f) { return needs_code(f.programs[t]); });
  }
  std::set<std::string_view> kernels;
  std::vector<backend::CodeImage> code = images(target);
  for (const backend::CodeImage& c : code) {
    if (c.runs_on(architecture)) kernels.insert(c.kernels.begin(), c.kernels.end());
  }
  return std::all_of(code.begin(), code.end(),
                     [&](const backend::CodeImage& c) { return std::all_of(c.kernels.begin(), c.kernels.end(), [&](const std::string& k) { return kernels.contains(k); }); });
}

// The nearest target whose code this GPU runs.
std::optional<size_t> find_gpu_target(const plan::Plan& plan, int architecture) {
  std::optional<size_t> best;
  int nearest = 0;
  for (size_t t = 0; t < plan.targets.size(); ++t) {
    const plan::ForTarget& target = plan.targets[t];
    if (target.target.kind != Target::Kind::cuda) continue;
    const int sm = target.target.architecture;
    if (sm > architecture || sm <= nearest || !has_code(plan, t, architecture)) continue;
    best = t;
    nearest = sm;
  }
  return best;
}

size_t gpu_target(const plan::Plan& plan, int architecture) {
  if (std::optional<size_t> found = find_gpu_target(plan, architecture)) return *found;
  const bool has_code = std::any_of(plan.targets.begin(), plan.targets.end(), [](const plan::ForTarget& t) { return !t.code.empty(); });
  if (has_code && plan.code_from == plan::CodeFrom::elsewhere)
    throw Error(Code::version, "the plan's device code was not compiled by this user on this machine, so it is not run")
        .fix("load the plan with libingot, which compiles its graph anew, or with trust \"code\" if you trust whoever made the file");
  throw Error(Code::version, fmt::format("the plan has no program for this GPU (sm_{}): it was compiled for {}", architecture, targets_of(plan)))
      .fix(fmt::format("compile the model with \"cuda:sm_{}\" among its targets (`ingot compile --set target=cuda:sm_{}`), or load the plan with libingot, which compiles it",
                       architecture, architecture));
}

// The number of the GPU that `device` means for this plan; nothing for the CPU.
std::optional<int> gpu_of(const plan::Plan& plan, std::string_view device) {
  bool for_cpu = std::any_of(plan.targets.begin(), plan.targets.end(), [](const plan::ForTarget& t) { return t.target.is_cpu(); });
  if (device == "cpu" || (device == "auto" && for_cpu)) return std::nullopt;
  if (device == "cuda" || device == "auto") return 0;
  if (std::optional<int> ordinal = device.starts_with("cuda:") ? number(device.substr(5)) : std::nullopt) return ordinal;
  throw Error(Code::invalid_option, fmt::format("there is no device \"{}\"", device)).fix("the devices are \"cpu\", \"cuda\", \"cuda:1\" and so on, or \"auto\"");
}

}  // namespace

Placement place(const plan::Plan& plan, std::string_view device) {
  std::optional<int> ordinal = gpu_of(plan, device);
  if (!ordinal) return {cpu_target(plan), std::shared_ptr<const backend::Backend>(&backend::cpu_backend(), [](const backend::Backend*) {})};
  size_t target = gpu_target(plan, backend::cuda_architecture(*ordinal));
  return {target, backend::open_cuda(*ordinal, images(plan.targets[target]), plan.targets[target].timings)};
}

std::optional<Target> missing_target(const plan::Plan& plan, std::string_view device) {
  std::optional<int> ordinal = gpu_of(plan, device);
  if (!ordinal) return std::nullopt;
  int architecture = backend::cuda_architecture(*ordinal);
  return find_gpu_target(plan, architecture) ? std::nullopt : std::optional(cuda_target(architecture));
}

}  // namespace ingot::runtime
