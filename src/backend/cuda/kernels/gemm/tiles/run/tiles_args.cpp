#include "backend/cuda/kernels/gemm/tiles/run/tiles_args.h"

#include <algorithm>

#include "backend/cuda/kernels/gemm/gemv/run/tuning.h"
#include "backend/cuda/kernels/gemm/tiles/run/tuning.h"
#include "base/fields.h"

namespace ingot::kernels {

namespace {

constexpr uint32_t magic = 0x414c4954;  // "TILA"

template <class S, class A>
void fields(S& s, A& a) {
  s.all(a.tiles, a.column_bytes, a.boxed_in, a.boxed_out);
}

}  // namespace

std::vector<std::byte> serialise(const TilesArgs& a) {
  return to_bytes(magic, a, [](auto& stream, auto& args) { fields(stream, args); });
}

TilesArgs parse_tiles_args(std::span<const std::byte> bytes, const GemmArgs& g) {
  auto a = from_bytes<TilesArgs>(bytes, magic, "the arguments of a GEMM by tiles", [](auto& stream, auto& args) { fields(stream, args); });
  require_gemm_args(g.b_type == g.type && !g.has_prologue() && (g.parts_of_b == 1 || (g.b_along_k && g.parts_of_b <= gemm::gemv_tuning::max_parts_of_b)), "tiles");
  require_gemm_args(a.column_bytes <= gemm::tiles_tuning::max_column_bytes, "columns");
  auto has = [](const std::vector<uint8_t>& list, uint8_t k) { return std::find(list.begin(), list.end(), k) != list.end(); };
  for (uint8_t k : {a.boxed_in, a.boxed_out}) {
    if (k == TilesArgs::none) continue;
    require_gemm_args(has(g.together, k) && ir::size_of(g.operands[k].dtype) == ir::size_of(g.type) && g.operands[k].gathered == 0 && (g.row_rank == 1 || has(g.merged, k)), "box");
  }
  return a;
}

}  // namespace ingot::kernels
