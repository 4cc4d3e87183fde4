// Offers convolutions of images with few channels: a block copies the part of the image that it reads, once for all windows.
#include "backend/cuda/kernels/gemm/im2col_2d/im2col_2d.h"

#include <algorithm>

#include "backend/cuda/kernels/elements.h"
#include "backend/cuda/kernels/gemm/gemm_compiler.h"
#include "backend/cuda/kernels/gemm/im2col_2d/im2col_2d.cuh.h"
#include "backend/cuda/kernels/gemm/im2col_2d/run/parameters.h"
#include "backend/cuda/kernels/gemm/im2col_2d/run/tuning.h"
#include "base/error.h"

namespace ingot::kernels {

extern const GemmImplementation gemm_im2col_2d;

}  // namespace ingot::kernels

namespace ingot::backend::cuda {

std::vector<kernels::Im2col2d> im2col_2d_of(const GemmSite& site) {
  if (site.gemm.encoding || site.tiles != all_tiles) return {};
  const Gemm& g = site.gemm;
  const int64_t columns = site.columns();
  const auto sizes = site.map_sizes();
  auto walk = sizes ? kernels::im2col_2d_axes(site.map, *sizes) : std::nullopt;
  if (!walk) return {};
  auto may_be = [&](int axis, int64_t stride) {
    const ir::Dim& s = g.a.strides[static_cast<size_t>(axis)];
    return !s.is_constant() || s.value() == stride;
  };
  std::vector<kernels::Im2col2d> out;
  auto add = [&](int last) {
    kernels::Im2col2d s = walk->numbers;
    s.last = last;
    s.size = static_cast<int>(ir::size_of(g.type));
    s.wide = static_cast<int>(std::min<int64_t>(4, (columns + 31) / 32));
    if (is_possible(s)) out.push_back(s);
  };
  if (may_be(walk->w, 1)) add(0);
  if (walk->c >= 0 && may_be(walk->c, 1) && may_be(walk->w, walk->numbers.channels)) add(1);
  return out;
}

namespace {

constexpr std::string_view shape_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_IM2COL_2D);

std::string_view library() {
  static const std::string all = fmt::format("\nconstexpr int im2col_2d_down = {}, im2col_2d_across = {};\n", kernels::im2col_2d_down, kernels::im2col_2d_across) +
                                 std::string(shape_text) + "\n" + std::string(INGOT_CUDA_TEXT_OF(INGOT_CUDA_GEMM_IM2COL_2D)) + "\n" + std::string(im2col_2d_cuh);
  return all;
}

// A sketch that warps can compute needs no other offer.
bool takes(const Gemm& g, bool) { return is_placed(g.a) && g.map && !g.gated && !g.encoding; }

bool may(const GemmSite& site) { return site.has_any_rows() && !im2col_2d_of(site).empty(); }

PrintedGemm print(const GemmSite& site, const kernels::GemmArgs& args, const EpilogueForm&) {
  const auto layouts = im2col_2d_of(site);
  PrintedGemm out{kernels::serialise(layouts), {}};
  for (size_t k = 0; k < layouts.size(); ++k) {
    const kernels::Im2col2d& s = layouts[k];
    const std::string shape = fmt::format("Im2col2dOf<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}>", s.channels, s.kernel[0], s.kernel[1], s.stride[0], s.stride[1], s.pad[0], s.pad[1],
                                          s.last, s.wide, s.size);
    out.kernels.push_back({fmt::format("image_{}", k), fmt::format("{}, {}", s.threads(), s.blocks()), "Im2col2dParameters",
                           fmt::format("gemm_by_im2col_2d<{}, {}, {}>", kernels::cuda_type(args.type), shape, args.b_along_k), gemm_libraries(args, true, {library})});
  }
  add_for_any_address(out, args, site);
  return out;
}

}  // namespace

extern const GemmCompiler gemm_im2col_2d;
const GemmCompiler gemm_im2col_2d{kernels::gemm_im2col_2d, takes, may, print};

}  // namespace ingot::backend::cuda
