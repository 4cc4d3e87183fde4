// "gemm_implicit": warps read A through the map. It can compute every call.
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gemm/run/through_map.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"

namespace ingot::kernels {

namespace {

std::shared_ptr<const void> parse(std::span<const std::byte> bytes, const GemmArgs& g) {
  require_gemm_args(bytes.empty() && !g.has_prologue() && (g.parts_of_b == 1 || g.b_along_k), "a GEMM through the map");
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
  return cost_of_work(s.has_tiles ? implicit_where_tiles_exist : s.batches ? implicit_batches : implicit, s);
}

}  // namespace

extern const GemmImplementation gemm_implicit;
constexpr GemmImplementation gemm_implicit{"gemm_implicit", parse, launches, cost};

}  // namespace ingot::kernels
