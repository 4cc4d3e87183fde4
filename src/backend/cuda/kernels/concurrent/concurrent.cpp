#include "backend/cuda/kernels/concurrent/concurrent.h"

#include <algorithm>

#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/concurrent/part.h"
#include "backend/cuda/kernels/concurrent/run/concurrent_args.h"
#include "backend/cuda/kernels/concurrent/run/concurrent_launches.h"
#include "backend/cuda/kernels/known_code.h"

namespace ingot::backend::cuda {

namespace {

// `emitted`: each step as a part.
kernels::ConcurrentArgs args_of(std::span<const Concurrent::Part> steps, std::span<const EmittedStep> emitted) {
  kernels::ConcurrentArgs args{steps[0].step->kernel, {}, {}};
  for (size_t k = 0; k < steps.size(); ++k) {
    const Concurrent::Part& s = steps[k];
    const std::vector<std::byte>& constants = emitted[k].constants;
    args.steps.push_back(
        {static_cast<uint16_t>(s.operands.size()), static_cast<uint16_t>(s.writes), static_cast<uint16_t>(s.step->sizes.size()), static_cast<uint32_t>(constants.size())});
    args.constants.insert(args.constants.end(), constants.begin(), constants.end());
  }
  return args;
}

// The kernels that the steps launch together, which may be others than each launches alone. Empty if that depends on sizes that are not known.
std::set<std::string> launched_together(std::span<const Concurrent::Part> steps, std::span<const EmittedStep> emitted) {
  KnownCall known;
  bool is_known = true;
  size_t operands = 0;
  for (const bool written : {false, true}) {
    for (const Concurrent::Part& s : steps) {
      const size_t reads = s.operands.size() - s.writes;
      for (size_t k = written ? reads : 0; is_known && k < (written ? s.operands.size() : reads); ++k, ++operands) is_known = known.add(s.operands[k].layout, s.operands[k].type);
    }
  }
  ir::Dims sizes;
  for (const Concurrent::Part& s : steps) sizes.insert(sizes.end(), s.step->sizes.begin(), s.step->sizes.end());
  if (!is_known || !known.add(sizes)) return {};
  const auto loaded = kernels::load_concurrent_cuda(kernels::serialise(args_of(steps, emitted)), operands, sizes.size());
  std::set<std::string> out;
  for (int multiprocessors : hoppers_multiprocessors) {
    for (const kernels::CudaLaunch& l : kernels::concurrent_cuda_launches(known.call(loaded.get()), {multiprocessors, true}).list) out.insert(l.kernel);
  }
  return out;
}

}  // namespace

// Steps of one code run in one launch: alone, few of them fill a GPU.
void concurrent_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  const auto* steps = std::get_if<Concurrent>(&site.kernel);
  if (steps == nullptr) return;
  const Part* first = part_of(*steps->parts[0].step);
  const bool alike = first != nullptr && std::all_of(steps->parts.begin(), steps->parts.end(), [&](const Concurrent::Part& p) {
                       const Part* part = part_of(*p.step);
                       return part != nullptr && part->name == first->name;
                     });
  if (!alike) return out.refusals.push_back({"rows of blocks", Obstacle::types, "the steps have other code"});
  out.offers.push_back({.implementation = "rows of blocks", .emit = [steps] { return join_steps(steps->parts); }});
}

EmittedStep join_steps(std::span<const Concurrent::Part> steps) {
  const bool by_sizes = std::all_of(steps.begin(), steps.end(), [](const Concurrent::Part& s) { return part_of(*s.step)->with_kernels != nullptr; });
  std::vector<EmittedStep> parts;
  for (const Concurrent::Part& s : steps) parts.push_back(part_of(*s.step)->emit());
  const std::set<std::string> launched = by_sizes ? launched_together(steps, parts) : std::set<std::string>();
  for (size_t k = 0; !launched.empty() && k < steps.size(); ++k) parts[k] = part_of(*steps[k].step)->with_kernels(parts[k], launched);
  EmittedStep out{"concurrent", kernels::serialise(args_of(steps, parts)), {}};
  for (const EmittedStep& step : parts) {
    out.sizes.insert(out.sizes.end(), step.sizes.begin(), step.sizes.end());
    for (const CodeUnit& unit : step.code) {
      const bool known = std::any_of(out.code.begin(), out.code.end(), [&](const CodeUnit& u) { return u.name == unit.name; });
      if (!known) out.code.push_back(unit);
    }
  }
  return out;
}

}  // namespace ingot::backend::cuda
