// "gemm_ragged": tiles of one expert's rows, which warps copy. Kernels: name_r16, name_r64, name_r128 by the tile's rows, and name_any_r64 for unaligned operands.
#include "backend/cuda/kernels/gemm/ragged/run/ragged.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/kernels/gemm/ragged/run/parameters.h"
#include "backend/cuda/kernels/gemm/ragged/run/ragged_args.h"
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gemm/run/through_map.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"

namespace ingot::kernels {

using namespace gemm::tuning;

Experts experts_of(const GemmCall& c) {
  const TensorRef &b = c.call.operands[c.args.left()], &ends = c.call.operands[c.args.b_end()];
  return {0, static_cast<long>(b.strides[0]), static_cast<int>(b.dims[0]), static_cast<int>(ir::size_of(ends.dtype))};
}

GemmLaunches::Append append_experts(const GemmCall& c) {
  return [experts = experts_of(c), index = c.args.b_end()](std::vector<std::byte>& parameters, std::vector<CudaLaunch::Pointer>& pointers) {
    const size_t at = parameters.size();
    pointers.push_back({CudaLaunch::Pointer::operand, at + offsetof(Experts, ends), index});
    parameters.resize(at + sizeof experts);
    std::memcpy(parameters.data() + at, &experts, sizeof experts);
  };
}

int64_t tiles_of_experts(const GemmCall& c, int64_t rows) { return c.size.m / rows + std::min<int64_t>(experts_of(c).count + 1, c.size.m); }

int64_t mean_rows(int64_t rows, int64_t experts) { return divided_up(rows, std::max<int64_t>(1, experts)); }

CudaLaunches ragged_by_warps(const GemmCall& c, bool vectors) {
  GemmLaunches out(c, vectors ? "" : "any_");
  if (c.is_empty()) return std::move(out.list);
  const int64_t mean = mean_rows(c.size.m, experts_of(c).count);
  const RaggedTile& t = !vectors ? any_address_tile : ragged_warp_tiles[mean <= max_rows_of_16 ? 0 : mean <= max_rows_of_64 ? 1 : 2];
  const int64_t columns = t.columns / (c.args.gated ? 2 : 1);
  out.add("r" + std::to_string(t.rows), RaggedParameters{c.size, c.matrices, c.walk.m_step[3]}, tiles_of_experts(c, t.rows) * divided_up(c.size.n, columns),
          t.threads(c.args.gated), t.shared(), append_experts(c));
  return std::move(out.list);
}

bool is_aligned(const GemmCall& c) {
  const int64_t each = c.args.b_together();
  return c.a_aligned && c.b_aligned && c.others_aligned && c.size.k % each == 0 && experts_of(c).stride % each == 0;
}

void require_experts(std::span<const std::byte> own, const GemmArgs& g) {
  require_gemm_args(own.empty() && g.is_matrix() && g.row_rank == 1 && !g.has_prologue() && g.parts_of_b == 1 && g.b_type == g.type, "products of experts");
}

namespace {

std::shared_ptr<const void> parse(std::span<const std::byte> bytes, const GemmArgs& g) {
  require_experts(bytes, g);
  return nullptr;
}

std::optional<CudaLaunches> launches(const GemmCall& c, const void*) {
  if (!is_aligned(c)) return ragged_by_warps(c, false);
  CudaLaunches out = ragged_by_warps(c, true);
  out.aligned = c.aligned(true, true);
  return with_any_address(std::move(out), ragged_by_warps(c, false));
}

double cost(const GemmSizes& s) { return cost_of_work(ragged, s); }

}  // namespace

extern const GemmImplementation gemm_ragged;
constexpr GemmImplementation gemm_ragged{"gemm_ragged", parse, launches, cost, true};

}  // namespace ingot::kernels
