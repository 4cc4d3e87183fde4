#include "backend/cuda/kernels/concurrent/concurrent.h"

#include <algorithm>

#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/concurrent/run/concurrent_args.h"
#include "backend/cuda/kernels/concurrent/run/concurrent_launches.h"
#include "backend/cuda/kernels/gemm/gemm_step.h"
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
kernels::ConcurrentArgs args_of(std::span<const Concurrent> steps, std::span<const EmittedStep* const> emitted) {
  kernels::ConcurrentArgs args{steps[0].step->kernel, steps[0].step->alike, {}, {}};
  for (size_t k = 0; k < steps.size(); ++k) {
    const Concurrent& s = steps[k];
    const std::vector<std::byte>& constants = emitted[k]->constants;
    args.steps.push_back(
        {static_cast<uint16_t>(s.operands), static_cast<uint16_t>(s.writes), static_cast<uint16_t>(s.step->sizes.size()), static_cast<uint32_t>(constants.size())});
    args.constants.insert(args.constants.end(), constants.begin(), constants.end());
  }
  return args;
}

// The kernels that the steps launch together, which may be others than each launches alone. Empty if that depends on sizes that are not known.
std::set<std::string> launched_together(std::span<const Concurrent> steps) {
  KnownCall known;
  bool is_known = std::all_of(steps.begin(), steps.end(), [](const Concurrent& s) { return s.step->whole != nullptr && s.layouts.size() == s.operands; });
  size_t operands = 0;
  for (const bool written : {false, true}) {
    for (const Concurrent& s : steps) {
      for (size_t k = written ? s.operands - s.writes : 0; is_known && k < (written ? s.operands : s.operands - s.writes); ++k, ++operands)
        is_known = known.add(s.layouts[k], s.dtypes[k]);
    }
  }
  ir::Dims sizes;
  std::vector<const EmittedStep*> wholes;
  for (const Concurrent& s : steps) {
    sizes.insert(sizes.end(), s.step->sizes.begin(), s.step->sizes.end());
    wholes.push_back(s.step->whole.get());
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

// Steps are joined after they are scheduled; no site asks for it.
void concurrent_offers(const Site&, const Target&, const Settings&, Offers&) {}

EmittedStep join_steps(std::span<const Concurrent> steps) {
  // Fused steps have one form for all launches beside others; of a GEMM's, the sizes choose the kernels.
  const bool fused = steps[0].step->kernel == "fused";
  const std::set<std::string> launched = fused ? std::set<std::string>() : launched_together(steps);
  std::vector<EmittedStep> made;  // with the code that they launch together
  std::vector<const EmittedStep*> parts;
  made.reserve(steps.size());
  for (const Concurrent& s : steps) parts.push_back(fused ? s.step->whole.get() : launched.empty() ? s.step : &made.emplace_back(with_large_tiles(*s.step, launched)));
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
