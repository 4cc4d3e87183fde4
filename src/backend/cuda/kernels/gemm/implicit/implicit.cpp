// Offers GEMMs whose A warps read through a map, in any layout, and with any epilogue of single elements.
#include "backend/cuda/kernels/gemm/implicit/implicit.cuh.h"

#include "backend/cuda/kernels/elements.h"
#include "backend/cuda/kernels/gemm/gemm_compiler.h"
#include "backend/cuda/kernels/gemm/implicit/run/parameters.h"
#include "backend/cuda/kernels/gemm/run/through_map.h"
#include "base/error.h"

namespace ingot::kernels {

extern const GemmImplementation gemm_implicit;

}  // namespace ingot::kernels

namespace ingot::backend::cuda {

namespace {

std::string_view library() {
  static const std::string all = std::string(INGOT_CUDA_TEXT_OF(INGOT_CUDA_GEMM_IMPLICIT)) + "\n" + std::string(implicit_cuh);
  return all;
}

// The tile of a warp, and the number of blocks per multiprocessor of Hopper, by warp_tiles.
struct OfWarp {
  std::string_view tile;
  int blocks;
} constexpr of_warps[] = {{"64, 32", 2}, {"32, 32", 4}};
constexpr size_t smallest = std::size(kernels::warp_tiles) - 1;

GemmKernel kernel_of(std::string suffix, size_t k, bool a_in_vectors, bool others_in_vectors, const kernels::GemmArgs& args, const GemmSite& site) {
  const kernels::WarpTile& t = kernels::warp_tiles[k];
  return {std::move(suffix),
          fmt::format("{}, INGOT_BLOCKS({})", t.threads, of_warps[k].blocks),
          "ImplicitParameters",
          fmt::format("gemm_through_map<{}, {}, {}, {}, {}, {}, {}, {}>", kernels::cuda_type(args.type), kernels::cuda_type(args.b_type), t.rows, t.columns, of_warps[k].tile,
                      args.b_along_k, a_in_vectors, site.pixels() == 3),
          gemm_libraries(args, true, {copied_tiles_text, library}),
          others_in_vectors};
}

// With a gated epilogue, tiles of Hopper take the place of sketches' offers.
bool takes(const Gemm& g, bool hopper) { return !g.prologue && (!g.gated || (hopper && is_placed(g.a))); }

bool may(const GemmSite& site) { return site.has_any_rows(); }

PrintedGemm print(const GemmSite& site, const kernels::GemmArgs& args, const EpilogueForm&) {
  PrintedGemm out;
  for (size_t k = 0; k <= smallest; ++k) out.kernels.push_back(kernel_of(std::to_string(k), k, true, true, args, site));
  // Only A may be unaligned: a window seldom starts at an aligned address.
  out.kernels.push_back(kernel_of(fmt::format("one_{}", smallest), smallest, false, true, args, site));
  add_finish(out, args, true);
  add_for_any_address(out, args, site);
  return out;
}

}  // namespace

void add_for_any_address(PrintedGemm& out, const kernels::GemmArgs& args, const GemmSite& site) {
  out.kernels.push_back(kernel_of(fmt::format("any_{}", smallest), smallest, false, false, args, site));
  add_finish(out, args, false);
}

extern const GemmCompiler gemm_implicit;
const GemmCompiler gemm_implicit{kernels::gemm_implicit, takes, may, print};

}  // namespace ingot::backend::cuda
