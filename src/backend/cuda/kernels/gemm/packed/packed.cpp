// Offers GEMMs whose constant B is packed: weights of 4 bits in groups, or of 8.
#include "backend/cuda/kernels/elements.h"
#include "backend/cuda/kernels/gemm/gemm_compiler.h"
#include "backend/cuda/kernels/gemm/gemv/gemv.h"
#include "backend/cuda/kernels/gemm/packed/packed.cuh.h"
#include "backend/cuda/kernels/gemm/packed/packing.h"
#include "backend/cuda/kernels/gemm/packed/run/parameters.h"
#include "backend/cuda/kernels/gemm/packed/run/tuning.h"
#include "base/error.h"

namespace ingot::kernels {

extern const GemmImplementation gemm_packed;

}  // namespace ingot::kernels

namespace ingot::backend::cuda {

extern const GemmCompiler gemm_tiles, gemm_implicit;

namespace {

namespace tuning = kernels::gemm::packed_tuning;

std::string_view library() {
  static const std::string all = std::string(INGOT_CUDA_TEXT_OF(INGOT_CUDA_GEMM_PACKED)) + "\n" + std::string(packed_cuh);
  return all;
}

bool takes(const Gemm&, bool) { return true; }  // the packing says

bool may(const GemmSite& site) { return site.gemm.packed && kernels::packed_b(site.gemm.packed->encoding) && site.pixels() == 0; }

// Chunks of K that a thread loads ahead: fewer where they take more registers.
int ahead_of(const kernels::PackedB& b, int tiles) { return b.bits == 8 || b.scale_bytes == 4 || tiles > tuning::few_tiles ? 2 : 4; }

PrintedGemm print(const GemmSite& site, const kernels::GemmArgs& args, const EpilogueForm& form) {
  const kernels::PackedB b = *kernels::packed_b(site.gemm.packed->encoding);
  const std::string numbers = fmt::format("{}, {}, {}, {}, {}", kernels::cuda_type(args.type), b.bits, b.group, b.scale_bytes, b.zero);
  PrintedGemm out;
  for (bool aligned : {true, false}) {
    for (int tiles : {tuning::few_tiles, tuning::more_tiles}) {
      out.kernels.push_back({fmt::format("{}packed_{}", aligned ? "" : "any_", tiles), fmt::format("{}, {}", kernels::gemv_threads, tuning::blocks_of_multiprocessor), "PackedParameters",
                             fmt::format("gemm_by_packed<{}, {}, {}, {}, {}>", numbers, tiles, ahead_of(b, tiles), aligned, site.gemm.constant),
                             gemm_libraries(args, false, {gemv_text, library}), aligned});
    }
  }
  kernels::PackedArgs own{b};
  // Many rows are multiplied by the decoded matrix, which the launch before writes.
  GemmSite decoded = site;
  decoded.gemm.packed = std::nullopt;
  decoded.gemm.encoding = std::nullopt;
  decoded.gemm.constant = false;
  const GemmCompiler& many = site.hopper ? gemm_tiles : gemm_implicit;
  if (is_half(args.type) && !is(rows_of(site.gemm), 1) && many.may(decoded)) {
    kernels::GemmArgs plain = args;
    plain.b_type = args.type;
    PrintedGemm of_many = many.print(decoded, plain, form);
    own.many = {std::string(many.run.kernel), std::move(of_many.args)};
    out.kernels.push_back({"decode", std::to_string(kernels::gemv_threads), "PackedDecodeParameters", fmt::format("decode_packed<{}>", numbers),
                           gemm_libraries(args, false, {gemv_text, library}), true});
    // Operands at other addresses are read by the kernels above.
    std::erase_if(of_many.kernels, [](const GemmKernel& k) { return k.suffix.starts_with("any_"); });
    std::move(of_many.kernels.begin(), of_many.kernels.end(), std::back_inserter(out.kernels));
  }
  out.args = kernels::serialise(own);
  return out;
}

}  // namespace

extern const GemmCompiler gemm_packed;
const GemmCompiler gemm_packed{kernels::gemm_packed, takes, may, print, "tile and parts of K"};

}  // namespace ingot::backend::cuda
