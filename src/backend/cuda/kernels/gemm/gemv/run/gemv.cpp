// Kernels: name_row, and name_any_row for unaligned operands.
#include <algorithm>

#include "backend/cuda/kernels/gemm/gemv/run/gemv_args.h"
#include "backend/cuda/kernels/gemm/gemv/run/parameters.h"
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gemm/run/through_map.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"

namespace ingot::kernels {

namespace {

std::shared_ptr<const void> parse(std::span<const std::byte> bytes, const GemmArgs& g) {
  require_gemm_args(bytes.empty() && g.b_along_k && g.type != ir::DType::f32 && g.parts_of_b <= gemm::gemv_tuning::max_parts_of_b, "one row");
  return nullptr;
}

CudaLaunches launches_by(const GemmCall& c, bool vectors) {
  GemmLaunches out(c, vectors ? "" : "any_");
  if (c.is_empty()) return std::move(out.list);
  const GemvParameters p{c.size, c.matrices};
  // Int8 numbers are multiplied with the row in shared memory.
  const bool int8 = c.args.b_type != c.args.type;
  CudaLaunch& made = out.add("row", p, std::min(c.size.n / 8, int64_t{gemv_blocks} * c.machine.multiprocessors), gemv_threads,
                             (c.args.gated ? 2 : 1) * gemv_shared + (c.args.has_prologue() || int8 ? 2 * static_cast<int>(c.size.k) : 0) + (int8 ? gemv_ring : 0));
  // The kernel for int8 overlaps the end of the previous kernel: it copies its first columns to shared memory meanwhile (H100, 8 layers: 0.826 ms with overlap,
  // 0.885 without). The kernel for halves does not: its waiting blocks would take room from others (1.43 ms with overlap, 1.32 without).
  made.overlaps = int8;
  return std::move(out.list);
}

std::optional<CudaLaunches> launches(const GemmCall& c, const void*) {
  if (c.size.m > 1 || !c.has_one_k() || c.size.k % c.args.b_together() != 0 || (c.args.b_type != c.args.type && c.size.k > gemm::gemv_tuning::max_row)) return std::nullopt;
  if (!c.b_aligned || !c.others_aligned) return launches_by(c, false);
  CudaLaunches out = launches_by(c, true);
  out.aligned = c.aligned(c.a_aligned && !c.args.has_prologue(), true);
  return with_any_address(std::move(out), launches_by(c, false));
}

double cost(const GemmSizes& s) { return s.m <= 1 ? cost_of_work(0, s) : std::numeric_limits<double>::infinity(); }

}  // namespace

extern const GemmImplementation gemm_gemv;
constexpr GemmImplementation gemm_gemv{"gemm_gemv", parse, launches, cost};

}  // namespace ingot::kernels
