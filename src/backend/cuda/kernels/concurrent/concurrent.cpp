#include "backend/cuda/kernels/concurrent/concurrent.h"

#include <algorithm>

#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/concurrent/run/concurrent_args.h"
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
  rename(unit.text);
  for (std::string& k : unit.kernels) rename(k);
  const std::string parameters = args.name_of_rows() + "_P";
  replace(unit.text, fmt::format("(const __grid_constant__ {} p) {{\n", parameters),
          fmt::format("(const __grid_constant__ Rows<{}> rows) {{\n  const {}& p = rows.of[blockIdx.y];\n", parameters, parameters));
  unit.libraries.push_back(rows_text);
  return unit;
}

}  // namespace

// Steps are joined after they are scheduled; no site asks for it.
void concurrent_offers(const Site&, const Target&, const Settings&, Offers&) {}

EmittedStep join_steps(std::span<const Concurrent> steps) {
  kernels::ConcurrentArgs args{steps[0].step->kernel, steps[0].step->alike, {}, {}};
  EmittedStep out{"concurrent", {}, {}};
  for (const Concurrent& s : steps) {
    const std::vector<std::byte>& constants = s.step->constants;
    args.steps.push_back(
        {static_cast<uint16_t>(s.operands), static_cast<uint16_t>(s.writes), static_cast<uint16_t>(s.step->sizes.size()), static_cast<uint32_t>(constants.size())});
    args.constants.insert(args.constants.end(), constants.begin(), constants.end());
    out.sizes.insert(out.sizes.end(), s.step->sizes.begin(), s.step->sizes.end());
    for (const CodeUnit& unit : s.step->code) {
      CodeUnit rows = in_rows(unit, args);
      const bool known = std::any_of(out.code.begin(), out.code.end(), [&](const CodeUnit& u) { return u.name == rows.name; });
      if (!known) out.code.push_back(std::move(rows));
    }
  }
  out.constants = kernels::serialise(args);
  return out;
}

}  // namespace ingot::backend::cuda
