// Offers products of experts by tiles of Hopper's groups of warps, which its copying unit fills.
#include "backend/cuda/kernels/elements.h"
#include "backend/cuda/kernels/gemm/ragged/ragged.h"
#include "backend/cuda/kernels/gemm/ragged_tiles/ragged_tiles.cuh.h"
#include "backend/cuda/kernels/gemm/ragged_tiles/run/parameters.h"
#include "backend/cuda/kernels/gemm/ragged_tiles/run/ragged_tiles_args.h"
#include "base/error.h"

namespace ingot::kernels {

extern const GemmImplementation gemm_ragged_tiles;

}  // namespace ingot::kernels

namespace ingot::backend::cuda {

namespace {

std::string_view library() {
  static const std::string all = std::string(INGOT_CUDA_TEXT_OF(INGOT_CUDA_GEMM_RAGGED_TILES)) + "\n" + std::string(ragged_tiles_cuh);
  return all;
}

bool takes(const Gemm& g, bool hopper) { return hopper && g.row_ends != nullptr; }

bool may(const GemmSite& site) { return site.hopper && site.gemm.row_ends != nullptr && kernels::has_tiles_of(site.gemm.type, site.b_along_k); }

PrintedGemm print(const GemmSite&, const kernels::GemmArgs& args, const EpilogueForm&) {
  PrintedGemm out;
  for (const kernels::RaggedLargeTile& t : kernels::ragged_large_tiles) {
    out.kernels.push_back({fmt::format("g{}", t.rows), fmt::format("{}, {}", t.threads(), t.blocks), "RaggedTilesParameters",
                           fmt::format("ragged_gemm_by_tiles<{}, {}, {}, {}, {}>", kernels::cuda_type(args.type), t.rows, t.columns, t.stages, args.b_along_k),
                           gemm_libraries(args, true, {copied_tiles_text, ragged_text, library})});
  }
  add_ragged_for_any_address(out, args);
  return out;
}

}  // namespace

extern const GemmCompiler gemm_ragged_tiles;
const GemmCompiler gemm_ragged_tiles{kernels::gemm_ragged_tiles, takes, may, print};

}  // namespace ingot::backend::cuda
