#include "backend/emitter.h"

#include "backend/cpu/compile/emitter.h"
#include "backend/cuda/compile/steps.h"
#include "base/error.h"

namespace ingot::backend {

std::optional<std::vector<int64_t>> map_steps(const ir::AffineMap& map, std::vector<ir::Dim>& sizes) {
  std::vector<int64_t> steps(map.axes.size() * map.dims.size());
  sizes.insert(sizes.end(), map.dims.begin(), map.dims.end());
  for (size_t j = 0; j < map.axes.size(); ++j) {
    for (const ir::AffineMap::Term& t : map.axes[j].terms) {
      if (t.coefficient < 0 || t.coefficient > INT32_MAX) return std::nullopt;
      steps[j * map.dims.size() + t.axis] = t.coefficient;
    }
    sizes.push_back(map.axes[j].offset);
  }
  return steps;
}

std::unique_ptr<Emitter> make_emitter(const Target& target, EmitterSettings settings) {
  if (target.is_cpu()) return cpu::make_emitter(settings.deterministic);
  if (settings.deterministic == Deterministic::batch) {
    throw Error(
        Code::unsupported,
        fmt::format("deterministic=\"batch\" is not to be had on {}: the library that multiplies matrices there chooses its order of sums by the number of rows", target.text()))
        .fix("compile for \"cpu\", or with deterministic=\"run\"");
  }
  return cuda::make_emitter(target.architecture, settings.tf32);
}

}  // namespace ingot::backend
