// Offers convolutions of volumes with few channels and stride 1: a block copies the part of the volume that it reads, once for all windows.
#include <algorithm>
#include <array>

#include "backend/cuda/kernels/elements.h"
#include "backend/cuda/kernels/gemm/gemm_compiler.h"
#include "backend/cuda/kernels/gemm/im2col_3d/im2col_3d.cuh.h"
#include "backend/cuda/kernels/gemm/im2col_3d/run/im2col_3d_args.h"
#include "backend/cuda/kernels/gemm/im2col_3d/run/parameters.h"
#include "backend/cuda/kernels/gemm/im2col_3d/run/tuning.h"
#include "backend/cuda/run/hardware.h"
#include "base/error.h"

namespace ingot::kernels {

extern const GemmImplementation gemm_im2col_3d;

}  // namespace ingot::kernels

namespace ingot::backend::cuda {

namespace {

constexpr std::string_view shape_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_IM2COL_3D);

std::string_view library() {
  static const std::string all = fmt::format("\nconstexpr int im2col_3d_across = {};\n", kernels::im2col_3d_across) + std::string(shape_text) + "\n" +
                                 std::string(INGOT_CUDA_TEXT_OF(INGOT_CUDA_GEMM_IM2COL_3D)) + "\n" + std::string(im2col_3d_cuh);
  return all;
}

// A's channels are neighbours or copied one by one.
std::optional<kernels::Im2col3d> im2col_3d_of(const GemmSite& site) {
  if (site.gemm.encoding || site.tiles != all_tiles) return std::nullopt;
  const Gemm& g = site.gemm;
  const int64_t columns = site.columns();
  const auto sizes = site.map_sizes();
  auto walk = sizes ? kernels::im2col_3d_axes(site.map, *sizes) : std::nullopt;
  if (!walk) return std::nullopt;
  kernels::Im2col3d s = walk->numbers;
  s.size = static_cast<int>(ir::size_of(g.type));
  s.wide = columns > 16 ? 2 : 1;
  auto extent = [&](int index) { return index < 0 ? int64_t{1} : (*sizes)[static_cast<size_t>(index)]; };
  const int max_shared = site.hopper ? kernels::gemm::im2col_3d_tuning::shared_bytes : hardware::shared_of_block;
  spread(s, std::array{extent(walk->image), extent(walk->place[0]), extent(walk->place[1]), extent(walk->place[2])}, columns, max_shared);
  const bool neighbours = walk->channel >= 0 && is(g.a.strides[static_cast<size_t>(walk->channel)], 1);
  if (columns > kernels::gemm::tuning::max_im2col_3d_columns || s.shared() > max_shared || !is_possible(s) || !(neighbours || s.narrow())) return std::nullopt;
  return s;
}

// A sketch that warps can compute needs no other offer.
bool takes(const Gemm& g, bool) { return is_placed(g.a) && g.map && !g.gated && !g.encoding; }

bool may(const GemmSite& site) { return site.has_any_rows() && im2col_3d_of(site).has_value(); }

PrintedGemm print(const GemmSite& site, const kernels::GemmArgs& args, const EpilogueForm&) {
  const kernels::Im2col3d s = *im2col_3d_of(site);
  const std::string shape =
      fmt::format("Im2col3dOf<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}>", s.channels, s.kernel[0], s.kernel[1], s.kernel[2], s.last, s.wide, s.size, s.deep, s.high, s.lines);
  PrintedGemm out{kernels::serialise(s), {}};
  out.kernels.push_back({"volume", fmt::format("{}, {}", s.threads(), s.blocks()), "Im2col3dParameters",
                         fmt::format("gemm_by_im2col_3d<{}, {}, {}, {}>", kernels::cuda_type(args.type), shape, args.b_along_k, site.gemm.constant),
                         gemm_libraries(args, true, {library})});
  add_for_any_address(out, args, site);
  return out;
}

}  // namespace

extern const GemmCompiler gemm_im2col_3d;
const GemmCompiler gemm_im2col_3d{kernels::gemm_im2col_3d, takes, may, print};

}  // namespace ingot::backend::cuda
