#include "backend/cuda/kernels/scatter_atomics/run/scatter_atomics_launches.h"

#include <algorithm>

#include "backend/cuda/kernels/scatter/run/scatter_at_once_launches.h"
#include "backend/cuda/kernels/scatter_atomics/run/tuning.h"
#include "backend/cuda/run/launch.h"
#include "base/error.h"
#include "kernels/scatter/run/scatter_checks.h"

namespace ingot::kernels {

namespace {

using namespace scatter_atomics_tuning;

// The axes with so many neighbours as one element; nullopt if they are not neighbours, or do not begin at multiples.
std::optional<ScatterAxes> in_vectors(ScatterAxes s, int64_t vector) {
  auto is_whole = [&](int64_t step) { return step % vector == 0; };
  ScatterAxis* inner = nullptr;
  for (ScatterAxis& a : s.axes) {
    if (a.size == 1) continue;
    const bool has_index = std::any_of(a.index.begin(), a.index.end(), [](int64_t step) { return step != 0; });
    if (a.updates == 1 && a.out == 1 && !has_index && inner == nullptr && is_whole(a.size)) {
      inner = &a;
    } else if (!is_whole(a.updates) || !is_whole(a.out.value_or(0))) {
      return std::nullopt;
    }
  }
  if (inner == nullptr || !std::all_of(s.step.begin(), s.step.end(), is_whole)) return std::nullopt;
  inner->size /= vector;
  inner->updates = vector;
  inner->out = vector;
  return s;
}

CudaLaunches launches(const std::optional<ScatterAxes>& all, ir::DType type) {
  CudaLaunches out;
  if (!all) return out;
  auto add = [&](const ScatterAxes& s, int64_t elements) {
    const ScatterAtOnceParameters p = offsets_of(s);
    out.add(fmt::format("{}_{}", scatter_atomics_cuda_name(type, s.extent.size()), elements), divided_up(p.count, threads), threads, p, pointers_of(s));
    out.overlap();
  };
  add(*all, 1);
  const int64_t elements = vector(type);
  const auto vectors = elements > 1 ? in_vectors(*all, elements) : std::nullopt;
  if (!vectors) return out;
  out.any = std::exchange(out.list, {});
  out.aligned = {all->updates, all->out};
  add(*vectors, elements);
  return out;
}

}  // namespace

std::string scatter_atomics_cuda_name(ir::DType type, size_t indices) { return fmt::format("scatter_atomics_{}_by_{}", ir::name_of(type), indices); }

CudaLaunches scatter_atomics_cuda_launches(const Call& call, const CudaMachine&) { return launches(axes_of_scatter(call), call.operands.back().dtype); }
CudaLaunches scatter_along_atomics_cuda_launches(const Call& call, const CudaMachine&) { return launches(axes_of_scatter_along(call), call.operands.back().dtype); }

std::span<const RunKernel> scatter_atomics_cuda_kernels() {
  static constexpr RunKernel list[] = {{"scatter_atomics", load_scatter, resolved<scatter_atomics_cuda_launches>, run_launches},
                                       {"scatter_along_atomics", load_scatter_along, resolved<scatter_along_atomics_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
