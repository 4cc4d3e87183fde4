// "gemm_implicit": warps read A through the map. It can compute every call.
#include <cmath>

#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gemm/run/through_map.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"
#include "backend/cuda/run/hardware.h"

namespace ingot::kernels {

namespace {

std::shared_ptr<const void> parse(std::span<const std::byte> bytes, const GemmArgs& g) {
  require_gemm_args(bytes.empty() && !g.has_prologue() && g.parts_of_b == 1, "a GEMM through the map");
  return nullptr;
}

std::optional<CudaLaunches> launches(const GemmCall& c, const void*) {
  if (!c.b_aligned || !c.others_aligned) return through_map(c, Access::elements);
  CudaLaunches out = through_map(c, c.a_aligned ? Access::vectors : Access::vectors_but_a);
  out.aligned = c.aligned(c.a_aligned, true);
  return with_any_address(std::move(out), c);
}

double cost(const GemmSizes& s) {
  using namespace gemm::tuning;
  const int64_t turns = divided_up(s.k, row_bytes / (s.floats ? 4 : 2));
  const WarpShares shares = warp_shares(s.m, s.n, turns, static_cast<int>(backend::cuda::hardware::h200_multiprocessors), true, false);
  if (s.has_tiles && s.through_map && shares.splits > 1) {  // narrow, or of few rows: many blocks have a few steps each
    const auto blocks = static_cast<double>(shares.blocks * shares.splits);
    const double rounds = std::ceil(blocks / (2.0 * backend::cuda::hardware::h200_multiprocessors)), steps = static_cast<double>(divided_up(turns, shares.splits));
    const double parts = shares.splits > 1 ? static_cast<double>(s.m * s.n * shares.splits) * implicit_part : 0;
    return launch + std::max((rounds * steps * (s.floats ? implicit_step_of_floats : implicit_step) + parts) * s.slower, s.reading);
  }
  return cost_of_work(s.has_tiles ? implicit_where_tiles_exist : s.batches ? implicit_batches : implicit, s);
}

}  // namespace

extern const GemmImplementation gemm_implicit;
constexpr GemmImplementation gemm_implicit{"gemm_implicit", parse, launches, cost};

}  // namespace ingot::kernels
