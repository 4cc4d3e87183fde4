// Offers GEMMs of two to eight rows of halves by a B contiguous along K, which may be in parts.
#include "backend/cuda/kernels/elements.h"
#include "backend/cuda/kernels/gemm/gemm_compiler.h"
#include "backend/cuda/kernels/gemm/gemv/gemv.h"
#include "backend/cuda/kernels/gemm/skinny/run/parameters.h"
#include "backend/cuda/kernels/gemm/skinny/run/skinny_args.h"
#include "backend/cuda/kernels/gemm/skinny/skinny.cuh.h"
#include "base/error.h"

namespace ingot::kernels {

extern const GemmImplementation gemm_skinny;

}  // namespace ingot::kernels

namespace ingot::backend::cuda {

namespace {

std::string_view library() {
  static const std::string all = std::string(INGOT_CUDA_TEXT_OF(INGOT_CUDA_GEMM_SKINNY)) + "\n" + std::string(skinny_cuh);
  return all;
}

bool takes(const Gemm& g, bool) { return may_be_skinny(g); }

bool may(const GemmSite& site) { return site.may_be_skinny; }

PrintedGemm print(const GemmSite& site, const kernels::GemmArgs& args, const EpilogueForm&) {
  PrintedGemm out;
  for (bool aligned : {true, false}) {
    out.kernels.push_back({aligned ? "rows" : "any_rows", fmt::format("{}, {}", kernels::gemv_threads, kernels::gemv_blocks), "SkinnyParameters",
                           fmt::format("skinny_gemm_along_k<{}, {}, {}>", kernels::cuda_type(args.type), aligned, site.gemm.constant),
                           gemm_libraries(args, false, {gemv_text, library}), aligned});
  }
  return out;
}

}  // namespace

extern const GemmCompiler gemm_skinny;
const GemmCompiler gemm_skinny{kernels::gemm_skinny, takes, may, print};

}  // namespace ingot::backend::cuda
