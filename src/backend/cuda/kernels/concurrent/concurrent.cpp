#include "backend/cuda/kernels/concurrent/concurrent.h"

#include <algorithm>

#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/concurrent/run/concurrent_args.h"
#include "backend/cuda/kernels/concurrent/run/concurrent_launches.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_cuda_args.h"
#include "backend/cuda/kernels/fused/run/fused_args.h"
#include "backend/cuda/kernels/gemm/gemm_step.h"
#include "backend/cuda/kernels/gemm/grouped_convolution/run/grouped_convolution_args.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "backend/cuda/kernels/known_code.h"
#include "base/error.h"

namespace ingot::backend::cuda {

namespace {

std::string_view rows_text() {
  static const std::string text = fmt::format(
      "// The parameters of steps that run side by side: each has a row of blocks.\ntemplate <class P> struct Rows {{ P of[{} / sizeof(P)]; }};\n", kernels::concurrent_parameters);
  return text;
}

void replace(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
}

// The unit's kernels for rows of blocks.
CodeUnit in_rows(CodeUnit unit, const kernels::ConcurrentArgs& args) {
  auto rename = [&](std::string& text) { replace(text, args.name, args.name_of_rows()); };
  rename(unit.name);
  rename(unit.shared);
  rename(unit.text);
  for (std::string& k : unit.kernels) rename(k);
  const std::string parameters = args.name_of_rows() + "_P";
  replace(unit.text, fmt::format("(const __grid_constant__ {} p) {{\n", parameters),
          fmt::format("(const __grid_constant__ Rows<{}> joined) {{\n  const {}& p = joined.of[blockIdx.y];\n", parameters, parameters));
  unit.libraries.push_back(rows_text);
  return unit;
}

}  // namespace

namespace {

// `emitted`: each step in the form whose constants count.
kernels::ConcurrentArgs args_of(std::span<const Concurrent::Part> steps, std::span<const EmittedStep* const> emitted) {
  kernels::ConcurrentArgs args{steps[0].step->kernel, name_as_part(*steps[0].step), {}, {}};
  for (size_t k = 0; k < steps.size(); ++k) {
    const Concurrent::Part& s = steps[k];
    const std::vector<std::byte>& constants = emitted[k]->constants;
    args.steps.push_back(
        {static_cast<uint16_t>(s.operands.size()), static_cast<uint16_t>(s.writes), static_cast<uint16_t>(s.step->sizes.size()), static_cast<uint32_t>(constants.size())});
    args.constants.insert(args.constants.end(), constants.begin(), constants.end());
  }
  return args;
}

// The kernels that the steps launch together, which may be others than each launches alone. Empty if that depends on sizes that are not known.
std::set<std::string> launched_together(std::span<const Concurrent::Part> steps) {
  KnownCall known;
  bool is_known = std::all_of(steps.begin(), steps.end(), [](const Concurrent::Part& s) { return s.step->as_part != nullptr; });
  size_t operands = 0;
  for (const bool written : {false, true}) {
    for (const Concurrent::Part& s : steps) {
      const size_t reads = s.operands.size() - s.writes;
      for (size_t k = written ? reads : 0; is_known && k < (written ? s.operands.size() : reads); ++k, ++operands) is_known = known.add(s.operands[k].layout, s.operands[k].type);
    }
  }
  ir::Dims sizes;
  std::vector<const EmittedStep*> wholes;
  for (const Concurrent::Part& s : steps) {
    sizes.insert(sizes.end(), s.step->sizes.begin(), s.step->sizes.end());
    wholes.push_back(s.step->as_part.get());
  }
  if (!is_known || !known.add(sizes)) return {};
  const kernels::ConcurrentArgs args = args_of(steps, wholes);
  const auto loaded = kernels::load_concurrent_cuda(kernels::serialise(args), operands, sizes.size());
  std::set<std::string> out;
  for (int multiprocessors : hoppers_multiprocessors) {
    for (const kernels::CudaLaunch& l : kernels::concurrent_cuda_launches(known.call(loaded.get()), {multiprocessors, true}).list) {
      out.insert(args.name + l.kernel.substr(args.name_of_rows().size()));
    }
  }
  return out;
}

}  // namespace

std::string name_as_part(const EmittedStep& step) {
  if (step.kernel == "fused") return step.as_part == nullptr ? "" : kernels::parse_fused_cuda(step.as_part->constants).name;
  if (step.kernel == "depthwise_conv") return kernels::parse_depthwise_conv_cuda(step.constants).name;
  if (step.kernel == "gemm_grouped_convolution") return kernels::parse_grouped_convolution(step.constants).name;
  if (step.kernel.starts_with("gemm_")) return kernels::parse_gemm_cuda(step.constants).name;
  return "";
}

// Steps of one code run in one launch: alone, few of them fill a GPU.
void concurrent_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  const auto* steps = std::get_if<Concurrent>(&site.kernel);
  if (steps == nullptr) return;
  const std::string name = name_as_part(*steps->parts[0].step);
  const bool alike = !name.empty() && std::all_of(steps->parts.begin(), steps->parts.end(), [&](const Concurrent::Part& p) { return name_as_part(*p.step) == name; });
  if (!alike) return out.refusals.push_back({"rows of blocks", Obstacle::types, "the steps have other code"});
  out.offers.push_back({.implementation = "rows of blocks", .emit = [steps] { return join_steps(steps->parts); }});
}

EmittedStep join_steps(std::span<const Concurrent::Part> steps) {
  // Fused steps have one form for all launches beside others; of a GEMM's, the sizes choose the kernels.
  const bool fused = steps[0].step->kernel == "fused";
  const std::set<std::string> launched = fused ? std::set<std::string>() : launched_together(steps);
  std::vector<EmittedStep> made;  // with the code that they launch together
  std::vector<const EmittedStep*> parts;
  made.reserve(steps.size());
  for (const Concurrent::Part& s : steps) parts.push_back(fused ? s.step->as_part.get() : launched.empty() ? s.step : &made.emplace_back(with_large_tiles(*s.step, launched)));
  const kernels::ConcurrentArgs args = args_of(steps, parts);
  EmittedStep out{"concurrent", {}, {}};
  for (const EmittedStep* step : parts) {
    out.sizes.insert(out.sizes.end(), step->sizes.begin(), step->sizes.end());
    for (const CodeUnit& unit : step->code) {
      CodeUnit rows = in_rows(unit, args);
      const bool known = std::any_of(out.code.begin(), out.code.end(), [&](const CodeUnit& u) { return u.name == rows.name; });
      if (!known) out.code.push_back(std::move(rows));
    }
  }
  out.constants = kernels::serialise(args);
  return out;
}

}  // namespace ingot::backend::cuda
