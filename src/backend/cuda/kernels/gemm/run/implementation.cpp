#include "backend/cuda/kernels/gemm/run/implementation.h"

#include <algorithm>

#include "backend/cuda/kernels/concurrent/run/part_launches.h"
#include "backend/cuda/kernels/gemm/gemv/run/tuning.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"
#include "backend/cuda/kernels/gemm/tiles/run/tiles.h"
#include "base/error.h"

namespace ingot::kernels {

#define X(name) extern const GemmImplementation gemm_##name;
#include "backend/cuda/kernels/gemm/run/implementations.def"
#undef X

namespace {

constexpr const GemmImplementation* all[] = {
#define X(name) &gemm_##name,
#include "backend/cuda/kernels/gemm/run/implementations.def"
#undef X
};

// Loads the step's implementations that `find` gives; null: it is left out.
template <class Find>
std::shared_ptr<const void> load_implementations(std::span<const std::byte> constants, size_t operands, size_t sizes, const Find& find) {
  auto out = std::make_shared<LoadedGemm>(LoadedGemm{parse_gemm_cuda(constants), {}});
  const GemmArgs& args = out->args;
  for (const GemmArgs::Implementation& i : args.implementations) {
    if (const GemmImplementation* x = find(i.kernel)) out->implementations.push_back({x, x->parse(i.args, args)});
  }
  auto of_experts = [](const LoadedGemm::One& one) { return one.implementation->of_experts; };
  const auto experts = static_cast<size_t>(std::count_if(out->implementations.begin(), out->implementations.end(), of_experts));
  require_gemm_args(!out->implementations.empty() && (experts == 0 || experts == out->implementations.size()), "implementations");
  const size_t wanted = args.b_end() + (experts == 0 ? 0 : 1) + args.operands.size(), numbers = size_t{3} + args.map.m_rank + args.map.k_rank + args.map.rank + args.sizes;
  if (operands != wanted || sizes != numbers) fail(Code::format, "a GEMM step has {} operands and {} sizes, its arguments {} and {}", operands, sizes, wanted, numbers);
  return out;
}

template <const GemmImplementation& implementation>
std::shared_ptr<const void> load_gemm_of(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  return load_gemm(implementation, constants, operands, sizes);
}
template <const GemmImplementation& implementation>
constexpr RunKernel gemm_kernel() {
  return {implementation.kernel, load_gemm_of<implementation>, resolved<gemm_cuda_launches>, run_launches, tunables<gemm_cuda_launches>};
}

// The cheapest implementation of those loaded that can compute the call, with its launches.
struct Chosen {
  const GemmImplementation* implementation = nullptr;
  CudaLaunches launches;
};
Chosen choose(const Call& call, const CudaMachine& machine) {
  const auto& loaded = *static_cast<const LoadedGemm*>(call.constants);
  const GemmCall c(loaded.args, call, machine);
  const GemmSizes sizes{.m = c.size.m,
                        .n = c.size.n,
                        .k = c.size.k,
                        .floats = loaded.args.type == ir::DType::f32,
                        .through_map = !loaded.args.is_matrix(),
                        .has_tiles = machine.tiles && has_tiles_of(loaded.args.type, loaded.args.b_along_k),
                        .experts = c.has_experts() ? call.operands[loaded.args.b_end()].dims[0] : 1};
  Chosen out;
  double least = std::numeric_limits<double>::infinity();
  for (const LoadedGemm::One& one : loaded.implementations) {
    const double cost = one.implementation->cost(sizes);
    if (one.implementation->of_packed != c.packed || (out.implementation != nullptr && cost >= least)) continue;
    auto launches = one.implementation->launches(c, one.args.get());
    if (!launches) continue;
    least = cost;
    out = {one.implementation, std::move(*launches)};
  }
  out.launches.nanoseconds = least;
  return out;
}

}  // namespace

// The kernels of cuda/run/kernels.def. As parts they are chosen among at run time, whichever the step names.
#define X(name) \
  extern const PartLaunches gemm_##name##_part; \
  const PartLaunches gemm_##name##_part{load_gemm_cuda, gemm_cuda_launches, gemm_tiles_choices}; \
  std::span<const RunKernel> gemm_##name##_cuda_kernels() { \
    static const RunKernel list[] = {gemm_kernel<gemm_##name>()}; \
    return list; \
  }
#include "backend/cuda/kernels/gemm/run/implementations.def"
#undef X

std::span<const GemmImplementation* const> gemm_implementations() { return all; }

double cost_of_work(double times, const GemmSizes& s) { return gemm::tuning::launch + std::max(times * work_of(s), s.reading); }

bool fills_tiles_of_library(const GemmSizes& s) {
  using namespace gemm::tuning;
  return s.floats && s.k > max_short_sum && s.n % tile_columns == 0;
}

double cost_of_library(const GemmSizes& s) {
  using namespace gemm::tuning;
  const bool fills = !s.floats && !s.through_map && s.m >= min_filling_rows && s.n % wide_tile_columns == 0 && s.n % tile_columns != 0;
  const double times = s.batches || fills ? library_behind : fills_tiles_of_library(s) ? library_of_long_sums : s.floats ? library_of_floats : library;
  return launch_of_library + std::max(times * work_of(s), s.m <= gemm::gemv_tuning::max_skinny_rows ? library_reading * s.reading : s.reading);
}

std::shared_ptr<const void> load_gemm(const GemmImplementation& implementation, std::span<const std::byte> constants, size_t operands, size_t sizes) {
  return load_implementations(constants, operands, sizes, [&](std::string_view kernel) { return kernel == implementation.kernel ? &implementation : nullptr; });
}

std::shared_ptr<const void> load_gemm_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  return load_implementations(constants, operands, sizes, [](std::string_view kernel) {
    const auto found = std::find_if(std::begin(all), std::end(all), [&](const GemmImplementation* x) { return x->kernel == kernel; });
    require_gemm_args(found != std::end(all), "implementations");
    return *found;
  });
}

CudaLaunches gemm_cuda_launches(const Call& call, const CudaMachine& machine) { return choose(call, machine).launches; }

std::string_view gemm_cuda_choice(const Call& call, const CudaMachine& machine) {
  const Chosen chosen = choose(call, machine);
  return chosen.implementation == nullptr ? std::string_view() : chosen.implementation->kernel;
}

}  // namespace ingot::kernels
