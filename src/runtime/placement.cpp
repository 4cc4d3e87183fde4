#include "runtime/placement.h"

#include <algorithm>
#include <optional>
#include <set>

#include "backend/run/registry.h"
#include "base/error.h"

namespace ingot::runtime {

namespace {

std::string targets_of(const plan::Plan& plan) {
  std::string s;
  for (const plan::ForTarget& t : plan.targets) s += (s.empty() ? "" : ", ") + t.target.text();
  return s;
}

std::vector<backend::CodeImage> images(const plan::ForTarget& target) {
  std::vector<backend::CodeImage> out;
  for (const plan::DeviceCode& c : target.code) out.push_back({c.form == plan::DeviceCode::Form::portable, c.architecture, c.kernels, c.image});
  return out;
}

// False if all steps are GEMMs of a library, which need no device code of the plan.
bool needs_code(const plan::Program& p) {
  return std::any_of(p.steps.begin(), p.steps.end(), [](const plan::Step& s) { return s.kernel != "matmul"; });
}

// True if every kernel of the target's device code is in an image that the GPU can run, or no step needs code.
bool has_code(const plan::Plan& plan, size_t t, int architecture) {
  const plan::ForTarget& target = plan.targets[t];
  if (!target.code.empty() && plan.code_from == plan::CodeFrom::elsewhere) return false;  // code from elsewhere is never run
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

// The target of the highest architecture whose programs run on a device of kind `on`.
std::optional<size_t> find_target(const plan::Plan& plan, const backend::Devices& devices, const Target& on) {
  std::optional<size_t> best;
  int nearest = -1;
  for (size_t t = 0; t < plan.targets.size(); ++t) {
    const Target& target = plan.targets[t].target;
    if (target.kind != on.kind || target.architecture > on.architecture || target.architecture <= nearest) continue;
    if (devices.native && !has_code(plan, t, on.architecture)) continue;
    best = t;
    nearest = target.architecture;
  }
  return best;
}

[[noreturn]] void refuse(const plan::Plan& plan, const backend::Devices& devices, const Target& on) {
  const std::string text = on.text();
  if (!devices.native)
    throw Error(Code::version, fmt::format("the plan has no program for {}: it was compiled for {}", devices.name, targets_of(plan)))
        .fix(fmt::format("compile the model with \"{}\" among its targets", text));
  const bool has_code = std::any_of(plan.targets.begin(), plan.targets.end(), [](const plan::ForTarget& t) { return !t.code.empty(); });
  if (has_code && plan.code_from == plan::CodeFrom::elsewhere)
    throw Error(Code::version, "the plan's device code was not compiled by this user on this machine, so it is not run")
        .fix("load the plan with libingot, which compiles its graph anew, or with trust \"code\" if you trust whoever made the file");
  throw Error(Code::version, fmt::format("the plan has no program for {} (sm_{}): it was compiled for {}", devices.name, on.architecture, targets_of(plan)))
      .fix(fmt::format("compile the model with \"{}\" among its targets (`ingot compile --set target={}`), or load the plan with libingot, which compiles it", text, text));
}

backend::DeviceName device_for(const plan::Plan& plan, std::string_view name) {
  if (name == "auto") {
    for (const backend::Devices* devices : backend::all_devices()) {
      if (std::any_of(plan.targets.begin(), plan.targets.end(), [&](const plan::ForTarget& t) { return t.target.kind == devices->kind; })) return {devices, 0};
    }
  }
  const backend::DeviceName found = backend::find_device(name);
  if (found.devices != nullptr) return found;
  throw Error(Code::invalid_option, fmt::format("there is no device \"{}\"", name)).fix("the devices are \"cpu\", \"cuda\", \"cuda:1\" and so on, \"reference\", or \"auto\"");
}

}  // namespace

Placement place(const plan::Plan& plan, std::string_view device) {
  plan::check_external(plan, plan::external_kernels(plan));
  const auto [devices, number] = device_for(plan, device);
  const Target on = devices->target(number);
  const std::optional<size_t> target = find_target(plan, *devices, on);
  if (!target) refuse(plan, *devices, on);
  return {*target, devices->open(number, images(plan.targets[*target]), plan.targets[*target].timings)};
}

std::optional<Target> missing_target(const plan::Plan& plan, std::string_view device) {
  const auto [devices, number] = device_for(plan, device);
  if (!devices->native) return std::nullopt;
  const Target on = devices->target(number);
  return find_target(plan, *devices, on) ? std::nullopt : std::optional(on);
}

}  // namespace ingot::runtime
