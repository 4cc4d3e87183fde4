// "gemm_ragged_tiles". Kernels: name_g64 and name_g128 by the tile's rows, and name_any_r64 of gemm_ragged for unaligned operands.
#include "backend/cuda/kernels/gemm/ragged/run/ragged.h"
#include "backend/cuda/kernels/gemm/ragged_tiles/run/parameters.h"
#include "backend/cuda/kernels/gemm/ragged_tiles/run/ragged_tiles_args.h"
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gemm/run/through_map.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"

namespace ingot::kernels {

namespace {

using namespace gemm::tuning;
using P = RaggedTilesParameters;

std::shared_ptr<const void> parse(std::span<const std::byte> bytes, const GemmArgs& g) {
  require_experts(bytes, g);
  require_gemm_args(has_tiles_of(g.type, g.b_along_k), "products of experts by tiles");
  return nullptr;
}

// The tensor maps of A [M, K] and of all matrices. nullopt if the copying unit cannot describe them.
struct Maps {
  CudaTiles a, b;
};
std::optional<Maps> maps_of(const GemmCall& c, const RaggedLargeTile& t) {
  const auto size = static_cast<int64_t>(ir::size_of(c.args.type)), experts = int64_t{experts_of(c).count}, columns = (c.args.gated ? 2 : 1) * c.size.n;
  const int64_t row = (c.walk.m_extent[3] == 1 ? c.size.k : c.walk.m_step[3]) * size, column = c.matrices.b_step * size,
                expert_stride = (experts == 1 ? c.size.k * columns : experts_of(c).stride) * size;
  auto usable = [](int64_t bytes) { return bytes > 0 && bytes % 16 == 0 && bytes < int64_t{1} << 39; };
  if (!usable(row) || !usable(column) || !usable(expert_stride) || c.size.k == 0 || experts == 0) return std::nullopt;
  const auto depth = static_cast<uint32_t>(depth_of(c.args)), rows = static_cast<uint32_t>(t.rows), wide = static_cast<uint32_t>(t.columns / (c.args.gated ? 2 : 1));
  auto u = [](int64_t x) { return static_cast<uint64_t>(x); };
  Maps out;
  out.a.dtype = out.b.dtype = c.args.type;
  out.a.rounded = out.b.rounded = size == 4;
  out.a.at = offsetof(P, a_tiles);
  out.a.index = 0;
  out.a.offset = c.matrices.base * size;
  out.a.dims = {u(c.size.k), 1, u(c.size.m)};
  out.a.strides = {u(row), u(row)};
  out.a.box = {depth, 1, rows};
  out.b.at = offsetof(P, b_tiles);
  out.b.index = c.args.left();
  if (c.args.b_along_k) {
    out.b.dims = {u(c.size.k), u(experts), u(columns)};
    out.b.strides = {u(expert_stride), u(column)};
    out.b.box = {depth, 1, wide};
  } else {
    out.b.dims = {u(columns), u(c.size.k), u(experts)};
    out.b.strides = {u(column), u(expert_stride)};
    out.b.box = {64, depth, 1};
  }
  return out;
}

std::optional<CudaLaunches> launches(const GemmCall& c, const void*) {
  if (!c.machine.tiles || !is_aligned(c)) return std::nullopt;
  const RaggedLargeTile& t = ragged_large_tiles[mean_rows(c.size.m, experts_of(c).count) > max_rows_of_64];
  auto maps = maps_of(c, t);
  if (!maps) return std::nullopt;
  GemmLaunches out(c);
  if (!c.is_empty()) {
    P p{{}, {}, c.size, static_cast<int>(divided_up(c.size.k, depth_of(c.args)))};
    CudaLaunch& made = out.add("g" + std::to_string(t.rows), p, tiles_of_experts(c, t.rows) * divided_up(c.size.n, t.columns / (c.args.gated ? 2 : 1)), t.threads(), t.shared(),
                               append_experts(c));
    made.tiles = {maps->a, maps->b};
  }
  out.list.aligned = c.aligned(true, true);
  return with_any_address(std::move(out.list), ragged_by_warps(c, false));
}

double cost(const GemmSizes& s) { return cost_of_work(mean_rows(s.m, s.experts) > max_rows_of_16 ? ragged_tiles : ragged_tiles_of_16_rows, s); }

}  // namespace

extern const GemmImplementation gemm_ragged_tiles;
constexpr GemmImplementation gemm_ragged_tiles{"gemm_ragged_tiles", parse, launches, cost, true};

}  // namespace ingot::kernels
