// Shared by cuBLASLt's GEMMs (matmul) and ingot's own.
#pragma once
#include <algorithm>

#include "backend/cuda/kernels/gemm/run/tuning.h"
#include "backend/offer.h"

namespace ingot::backend::cuda {

inline bool is(const ir::Dim& d, int64_t n) { return d.is_constant() && d.value() == n; }
inline bool is_half(ir::DType type) { return type == ir::DType::f16 || type == ir::DType::bf16; }
// Sizes as numbers; nullopt if one is known at run time only.
inline std::optional<std::vector<int64_t>> known_sizes(const ir::Dims& dims) {
  std::vector<int64_t> out;
  for (const ir::Dim& d : dims) {
    if (!d.is_constant()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}
// True if the inner axis is contiguous and the outer stride is large enough for it, as far as sizes are known.
bool is_contiguous_along(const StridedLayout&, size_t inner, size_t outer);
// The rows of A in memory.
inline ir::Dim rows_of(const Gemm& g) {
  ir::Dim rows = 1;
  for (size_t d = 0; d + 1 < g.a.dims.size(); ++d) rows *= g.a.dims[d];
  return rows;
}
inline bool has_one_row(const Gemm& g) { return g.a.dims.size() == 2 && is(g.a.dims[0], 1) && !g.map; }
// So few rows of halves that only reading B counts: two to eight; or, of an open number, perhaps.
bool is_skinny(const Gemm&);
bool may_be_skinny(const Gemm&);
// True if B is better read in parts than concatenated. The copy of small parts needs little memory, and the library multiplies by one part at a time.
inline bool has_large_parts_of_b(const Gemm& g) {
  const ir::Dim column = g.a.dims.back() * ir::Dim(static_cast<int64_t>(ir::size_of(g.type)));
  return std::all_of(g.b.begin(), g.b.end(),
                     [&](const StridedLayout& b) { return (column * b.dims[1]).is_constant() && (column * b.dims[1]).value() >= kernels::gemm::tuning::min_part_bytes; });
}

// How to print the step, or the obstacle. `emit` refers to the function's arguments.
struct GemmAnswer {
  std::optional<Obstacle> obstacle;
  std::string reason;
  std::function<EmittedStep()> emit;
};
inline GemmAnswer refusal(Obstacle obstacle, std::string reason) { return {obstacle, std::move(reason), {}}; }

// For cuBLASLt.
GemmAnswer library_gemm(const Gemm&, const FusedBody&, const std::vector<StridedLayout>&, bool tf32 = false);
// All of Hopper's tiles, one bit each (kernels::TilesArgs::tiles).
inline constexpr uint16_t all_tiles = UINT16_MAX;

}  // namespace ingot::backend::cuda
