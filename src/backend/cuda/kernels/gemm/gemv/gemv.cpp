// Offers GEMMs of one row of halves by a B contiguous along K, which may be in parts, with a prologue that computes the row.
#include "backend/cuda/kernels/gemm/gemv/gemv.h"

#include "backend/cuda/kernels/elements.h"
#include "backend/cuda/kernels/gemm/gemm_compiler.h"
#include "backend/cuda/kernels/gemm/gemv/gemv.cuh.h"
#include "backend/cuda/kernels/gemm/gemv/run/gemv_args.h"
#include "backend/cuda/kernels/gemm/gemv/run/parameters.h"
#include "base/error.h"

namespace ingot::kernels {

extern const GemmImplementation gemm_gemv;

}  // namespace ingot::kernels

namespace ingot::backend::cuda {

std::string_view gemv_text() {
  static const std::string all = std::string(INGOT_CUDA_TEXT_OF(INGOT_CUDA_GEMM_GEMV)) + "\n" + std::string(gemv_cuh);
  return all;
}

namespace {

bool takes(const Gemm& g, bool) { return is_half(g.type) && (has_one_row(g) || (is_placed(g.a) && !rows_of(g).is_constant())); }

bool may(const GemmSite& site) {
  ir::Dim rows = 1;
  for (size_t i = 0; i < site.map.m_rank; ++i) rows *= site.extents[i];
  return site.b_along_k && site.gemm.type != ir::DType::f32 && site.gemm.b.size() <= kernels::gemm::gemv_tuning::max_parts_of_b && (is(rows, 1) || !rows.is_constant());
}

PrintedGemm print(const GemmSite& site, const kernels::GemmArgs& args, const EpilogueForm&) {
  PrintedGemm out;
  for (bool aligned : {true, false}) {
    out.kernels.push_back({aligned ? "row" : "any_row", fmt::format("{}, {}", kernels::gemv_threads, kernels::gemv_blocks), "GemvParameters",
                           fmt::format("gemv_along_k<{}, {}, {}, {}>", kernels::cuda_type(args.type), kernels::cuda_type(args.b_type), aligned, site.gemm.constant),
                           gemm_libraries(args, false, {gemv_text}), aligned});
  }
  return out;
}

}  // namespace

extern const GemmCompiler gemm_gemv;
const GemmCompiler gemm_gemv{kernels::gemm_gemv, takes, may, print};

}  // namespace ingot::backend::cuda
