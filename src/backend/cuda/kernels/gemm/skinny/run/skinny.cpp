// Kernels: name_rows, and name_any_rows for unaligned operands.
#include "backend/cuda/kernels/gemm/skinny/run/skinny_args.h"

#include "backend/cuda/kernels/gemm/skinny/run/parameters.h"

#include <algorithm>

#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gemm/run/through_map.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"

namespace ingot::kernels {

namespace {

std::shared_ptr<const void> parse(std::span<const std::byte> bytes, const GemmArgs& g) {
  require_gemm_args(bytes.empty() && g.b_along_k && g.b_type == g.type && g.type != ir::DType::f32 && !g.has_prologue(), "a few rows");
  return nullptr;
}

CudaLaunches launches_by(const GemmCall& c, bool vectors) {
  const GemmArgs& args = c.args;
  GemmLaunches out(c, vectors ? "" : "any_");
  if (c.is_empty()) return std::move(out.list);
  SkinnyParameters p{c.size, c.matrices, {}, {}};
  std::copy(std::begin(c.walk.m_step), std::end(c.walk.m_step), p.m_step);
  std::copy(std::begin(c.walk.m_extent), std::end(c.walk.m_extent), p.m_extent);
  out.add("rows", p, std::min(c.size.n / 8, int64_t{gemv_blocks} * c.machine.multiprocessors), gemv_threads, (args.gated ? 2 : 1) * skinny_shared).overlaps = false;
  return std::move(out.list);
}

std::optional<CudaLaunches> launches(const GemmCall& c, const void*) {
  const bool guarded =
      std::any_of(std::begin(c.walk.m_guard), std::end(c.walk.m_guard), [](const auto& of) { return std::any_of(of, of + 4, [](int step) { return step != 0; }); });
  if (c.size.m <= 1 || c.size.m > gemm::gemv_tuning::max_skinny_rows || !c.has_one_k() || guarded || c.size.k % c.args.b_together() != 0) return std::nullopt;
  if (!c.a_aligned || !c.b_aligned || !c.others_aligned) return launches_by(c, false);
  CudaLaunches out = launches_by(c, true);
  out.aligned = c.aligned(true, true);
  return with_any_address(std::move(out), launches_by(c, false));
}

double cost(const GemmSizes& s) { return cost_of_work(0, s); }

}  // namespace

extern const GemmImplementation gemm_skinny;
constexpr GemmImplementation gemm_skinny{"gemm_skinny", parse, launches, cost};

}  // namespace ingot::kernels
