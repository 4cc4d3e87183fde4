// Offers GEMMs by tiles of Hopper's groups of warps, which its copying unit fills: A as a matrix, an image or a volume.
#include <functional>
#include <numeric>

#include "backend/cuda/kernels/elements.h"
#include "backend/cuda/kernels/gemm/gemm_compiler.h"
#include "backend/cuda/kernels/gemm/tiles/run/parameters.h"
#include "backend/cuda/kernels/gemm/tiles/run/tile_maps.h"
#include "backend/cuda/kernels/gemm/tiles/run/tiles_args.h"
#include "backend/cuda/kernels/gemm/tiles/tiles.cuh.h"
#include "base/error.h"

namespace ingot::kernels {

extern const GemmImplementation gemm_tiles;

}  // namespace ingot::kernels

namespace ingot::backend::cuda {

namespace {

static_assert(all_tiles == kernels::TilesArgs::all_tiles);

std::string_view library() {
  static const std::string all = std::string(INGOT_CUDA_TEXT_OF(INGOT_CUDA_GEMM_TILES)) + "\n" + std::string(tiles_cuh);
  return all;
}

// Of a sketch, whose channels are the last index of K: false if they do not fill the tiles. A step that has its layouts asks the tensor maps.
bool may_fill_tiles(const Gemm& g) {
  if (is_placed(g.a) || !g.map || g.map->dims.size() == g.batch_rank + g.m_rank) return true;
  const auto size = static_cast<int64_t>(ir::size_of(g.type));
  const auto taps = std::accumulate(g.map->dims.begin() + static_cast<int64_t>(g.batch_rank + g.m_rank), g.map->dims.end() - 1, ir::Dim(1), std::multiplies());
  const auto channels = g.map->dims.back().constant();
  if (!channels) return true;
  const int64_t vector = 16 / size;  // elements: channels are padded to whole ones
  return kernels::fills_tiles(taps.constant().value_or(1), kernels::divided_up(*channels, vector) * vector, kernels::gemm_row_bytes / size);
}

bool takes(const Gemm& g, bool hopper) { return hopper && !g.encoding && !g.prologue && may_fill_tiles(g); }

// Those of `all` in which no part of B begins inside a tile.
uint16_t tiles_of(const GemmSite& site, uint16_t all) {
  std::vector<int64_t> first;
  for (int64_t from = 0; const StridedLayout& b : site.gemm.b) {
    first.push_back(from);
    from += site.gemm.b.size() > 1 ? b.dims.back().value() : 0;
  }
  uint16_t out = 0;
  for (size_t k = 0; k < std::size(kernels::large_tiles); ++k) {
    if (kernels::fits_parts(kernels::large_tiles[k], first, site.columns(), site.gemm.gated)) out |= static_cast<uint16_t>(1u << k);
  }
  return all & out;
}

bool may(const GemmSite& site) {
  return site.hopper && tiles_of(site, site.tiles) != 0 && site.has_any_rows() && !site.one_row && !site.gemm.encoding && kernels::has_tiles_of(site.gemm.type, site.b_along_k);
}

PrintedGemm print(const GemmSite& site, const kernels::GemmArgs& args, const EpilogueForm& form) {
  const kernels::TilesArgs own{site.gemm.b.size() > 1 ? tiles_of(site, site.tiles) : site.tiles, form.column_bytes, form.boxed_in, form.boxed_out};
  PrintedGemm out{kernels::serialise(own), {}};
  for (size_t k = 0; k < std::size(kernels::large_tiles); ++k) {
    const kernels::LargeTile& t = kernels::large_tiles[k];
    if ((own.tiles >> k & 1) == 0 || !t.takes(site.columns(), args.gated, args.type == ir::DType::f32)) continue;
    out.kernels.push_back({fmt::format("t{}", k), fmt::format("{}, {}", t.threads(), t.blocks),
                           site.gemm.b.size() > 1 ? fmt::format("TilesParametersOf<{}>", kernels::gemm::gemv_tuning::max_parts_of_b) : "TilesParameters",
                           fmt::format("gemm_by_tiles<{}, {}, {}, {}, {}, {}, {}, {}, {}>", kernels::cuda_type(args.type), t.rows, t.columns,
                                       t.stages_with(own.boxed_bytes(args.type)), t.ping_pong, t.cluster, args.b_along_k, site.pixels(), site.gemm.constant),
                           gemm_libraries(args, true, {library}), true, t.cluster});
  }
  add_finish(out, args, true);
  add_for_any_address(out, args, site);
  return out;
}

}  // namespace

extern const GemmCompiler gemm_tiles;
const GemmCompiler gemm_tiles{kernels::gemm_tiles, takes, may, print, "tile and parts of K"};

}  // namespace ingot::backend::cuda
