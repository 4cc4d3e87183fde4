#include "backend/cuda/kernels/gemm/gemm_text.h"

#include <iterator>

#include "backend/cuda/kernels/gemm/gemm.cuh.h"
#include "backend/cuda/kernels/gemm/implicit/implicit.cuh.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_GEMM), stage_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_GEMM_STAGE);

}  // namespace

std::string_view gemm_cuda_text() {
  static const std::string all = std::string(parameters_text) + "\n" + std::string(stage_text) +
                                 fmt::format("\nconstexpr int gemm_row_bytes = {}, gemm_stages = {}, gemm_finish_threads = {}, gemv_threads = {};\n", gemm_row_bytes, gemm_stages,
                                             gemm_finish_threads, gemv_threads) +
                                 std::string(gemm_cuh);
  return all;
}

std::string_view implicit_cuda_text() { return implicit_cuh; }

std::vector<GemmKernel> implicit_gemm_cuda_kernels(const GemmArgs& args, bool b_constant, bool large, int64_t columns, int pixels) {
  const ir::DType type = args.type, b_type = args.b_type;
  const bool b_along_k = args.b_along_k;
  std::vector<GemmKernel> out;
  // The matrix instructions of groups of warps read floats only along K.
  const bool floats = type == ir::DType::f32;
  for (size_t k = 0; large && (b_along_k || !floats) && k < std::size(large_tiles); ++k) {
    const LargeTile& t = large_tiles[k];
    if ((args.tiles >> k & 1) == 0 || !t.takes(columns, args.gated, floats)) continue;
    out.push_back({fmt::format("t{}", k), fmt::format("{}, {}", t.threads(), t.blocks),
                   fmt::format("gemm_by_tiles<{}, {}, {}, {}, {}, {}, {}, {}, {}>", cuda_type(type), t.rows, t.columns, t.stages_beside(args.boxed_bytes()), t.in_turn, t.cluster,
                               b_along_k, pixels, b_constant),
                   true, false, t.cluster});
  }
  for (size_t k = 0; k < args.patches.size(); ++k) {
    const Im2col2d& s = args.patches[k];
    const std::string shape = fmt::format("Im2col2dOf<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}>", s.channels, s.kernel[0], s.kernel[1], s.stride[0], s.stride[1], s.pad[0], s.pad[1],
                                          s.last, s.wide, s.size);
    out.push_back(
        {fmt::format("patch_{}", k), fmt::format("{}, {}", s.threads(), s.blocks()), fmt::format("gemm_by_im2col_2d<{}, {}, {}>", cuda_type(type), shape, b_along_k), true});
  }
  for (const Im2col3d& s : args.bricks) {
    const std::string shape =
        fmt::format("Im2col3dOf<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}>", s.channels, s.kernel[0], s.kernel[1], s.kernel[2], s.last, s.wide, s.size, s.deep, s.high, s.lines);
    out.push_back({"brick", fmt::format("{}, {}", s.threads(), s.blocks()), fmt::format("gemm_by_im2col_3d<{}, {}, {}, {}>", cuda_type(type), shape, b_along_k, b_constant), true});
  }
  // The tiles of single warps, and the number of blocks per multiprocessor of Hopper.
  struct {
    std::string_view warp;
    int blocks;
  } constexpr of_warps[] = {{"64, 32", 2}, {"32, 32", 4}};
  for (bool aligned : {true, false}) {
    const std::string any = aligned ? "" : "any_";
    for (size_t k = aligned ? 0 : std::size(warp_tiles) - 1; k < std::size(warp_tiles); ++k) {
      const WarpTile& t = warp_tiles[k];
      out.push_back({any + std::to_string(k), fmt::format("{}, INGOT_BLOCKS({})", t.threads, of_warps[k].blocks),
                     fmt::format("gemm_through_map<{}, {}, {}, {}, {}, {}, {}, {}>", cuda_type(type), cuda_type(b_type), t.rows, t.columns, of_warps[k].warp, b_along_k, aligned,
                                 pixels == 3),
                     aligned});
    }
    // Only A may be unaligned: a window seldom starts at an aligned address.
    if (aligned) {
      constexpr size_t k = std::size(warp_tiles) - 1;
      const WarpTile& t = warp_tiles[k];
      out.push_back(
          {fmt::format("one_{}", k), fmt::format("{}, INGOT_BLOCKS({})", t.threads, of_warps[k].blocks),
           fmt::format("gemm_through_map<{}, {}, {}, {}, {}, {}, false, {}>", cuda_type(type), cuda_type(b_type), t.rows, t.columns, of_warps[k].warp, b_along_k, pixels == 3),
           true});
    }
    if (!args.gated) out.push_back({any + "finish", std::to_string(gemm_finish_threads), "finish_gemm", aligned});  // a gated epilogue has no parts of K
    if (!b_along_k || floats) continue;
    if (args.few_rows) {
      out.push_back(
          {any + "rows", fmt::format("{}, {}", gemv_threads, gemv_blocks), fmt::format("skinny_gemm_along_k<{}, {}, {}>", cuda_type(type), aligned, b_constant), aligned, true});
    }
    if (args.pieces > max_gemv_pieces) continue;
    out.push_back({any + "row", fmt::format("{}, {}", gemv_threads, gemv_blocks),
                   fmt::format("gemv_along_k<{}, {}, {}, {}>", cuda_type(type), cuda_type(b_type), aligned, b_constant), aligned, true});
  }
  return out;
}

}  // namespace ingot::kernels
