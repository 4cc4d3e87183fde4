// Offers products of experts: rows in the order of their experts, of which each has a matrix. Warps copy tiles themselves.
#include "backend/cuda/kernels/gemm/ragged/ragged.h"

#include "backend/cuda/kernels/elements.h"
#include "backend/cuda/kernels/gemm/ragged/ragged.cuh.h"
#include "backend/cuda/kernels/gemm/ragged/run/parameters.h"
#include "backend/cuda/kernels/gemm/ragged/run/ragged_args.h"
#include "base/error.h"

namespace ingot::kernels {

extern const GemmImplementation gemm_ragged;

}  // namespace ingot::kernels

namespace ingot::backend::cuda {

std::string_view ragged_text() {
  static const std::string text =
      std::string(INGOT_CUDA_TEXT_OF(INGOT_CUDA_EXPERTS)) + "\n" + std::string(INGOT_CUDA_TEXT_OF(INGOT_CUDA_GEMM_RAGGED)) + "\n" + std::string(ragged_cuh);
  return text;
}

namespace {

void add(PrintedGemm& out, const kernels::GemmArgs& args, const kernels::RaggedTile& t, bool aligned) {
  out.kernels.push_back({fmt::format("{}r{}", aligned ? "" : "any_", t.rows), std::to_string(t.threads(args.gated)), "RaggedParameters",
                         fmt::format("ragged_gemm<{}, {}, {}, {}, {}, {}, {}, {}>", kernels::cuda_type(args.type), t.rows, t.columns, t.warp_rows(args.gated),
                                     t.warp_columns(args.gated), t.stages, args.b_along_k, aligned),
                         gemm_libraries(args, true, {copied_tiles_text, ragged_text}), aligned});
}

bool takes(const Gemm& g, bool) { return g.row_ends != nullptr; }

bool may(const GemmSite& site) { return site.gemm.row_ends != nullptr; }

PrintedGemm print(const GemmSite&, const kernels::GemmArgs& args, const EpilogueForm&) {
  PrintedGemm out;
  for (const kernels::RaggedTile& t : kernels::ragged_warp_tiles) add(out, args, t, true);
  add_ragged_for_any_address(out, args);
  return out;
}

}  // namespace

void add_ragged_for_any_address(PrintedGemm& out, const kernels::GemmArgs& args) { add(out, args, kernels::any_address_tile, false); }

extern const GemmCompiler gemm_ragged;
const GemmCompiler gemm_ragged{kernels::gemm_ragged, takes, may, print};

}  // namespace ingot::backend::cuda
