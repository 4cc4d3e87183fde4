#include "backend/emitter.h"

#include <charconv>

#include "backend/cpu/emitter.h"
#include "backend/cuda/steps.h"
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

std::unique_ptr<Emitter> make_emitter(std::string_view target, EmitterSettings settings) {
  if (target == "cpu") return cpu::make_emitter(settings.deterministic);
  constexpr std::string_view cuda = "cuda:sm_";
  int architecture = 0;
  const char* end = target.data() + target.size();
  if (target.starts_with(cuda)) {
    auto [at, error] = std::from_chars(target.data() + cuda.size(), end, architecture);
    if (error == std::errc() && at == end && architecture > 0) {
      if (settings.deterministic == Deterministic::batch) {
        throw Error(
            Code::unsupported,
            fmt::format("deterministic=\"batch\" is not to be had on {}: the library that multiplies matrices there chooses its order of sums by the number of rows", target))
            .fix("compile for \"cpu\", or with deterministic=\"run\"");
      }
      return cuda::make_emitter(architecture, settings.tf32);
    }
  }
  throw Error(Code::invalid_option, fmt::format("there is no target \"{}\"", target)).fix("the targets are \"cpu\" and GPUs by architecture, such as \"cuda:sm_90\"");
}

}  // namespace ingot::backend
