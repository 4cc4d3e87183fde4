#include "backend/cuda/kernels/gemm/gemm_compiler.h"

#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/kernels/elements.h"
#include "backend/cuda/kernels/gemm/copied_tiles.cuh.h"
#include "backend/cuda/kernels/gemm/gemm.cuh.h"
#include "backend/cuda/kernels/gemm/gemm_step.h"
#include "base/error.h"

namespace ingot::backend::cuda {

#define X(name) extern const GemmCompiler gemm_##name;
#include "backend/cuda/kernels/gemm/run/implementations.def"
#undef X

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_GEMM), stage_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_GEMM_STAGE);

// What all kernels use; comes after the texts of matrix instructions.
std::string_view gemm_text() {
  using namespace kernels;
  static const std::string all = std::string(parameters_text) + "\n" + std::string(stage_text) +
                                 fmt::format("\nconstexpr int gemm_row_bytes = {}, gemm_stages = {}, gemm_finish_threads = {}, gemv_threads = {};\n", gemm_row_bytes, gemm_stages,
                                             gemm_finish_threads, gemv_threads) +
                                 std::string(gemm_cuh);
  return all;
}

}  // namespace

std::vector<const GemmCompiler*> gemm_compilers() {
  return {
#define X(name) &gemm_##name,
#include "backend/cuda/kernels/gemm/run/implementations.def"
#undef X
  };
}

std::vector<CodeUnit::Library> gemm_libraries(const kernels::GemmArgs& args, bool of_groups, std::vector<CodeUnit::Library> own) {
  std::vector<CodeUnit::Library> out = of_groups ? matrix_libraries(args.type, {args.b_along_k}) : matrix_libraries(args.type, {});
  out.push_back(gemm_text);
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

std::string_view copied_tiles_text() { return copied_tiles_cuh; }

void add_finish(PrintedGemm& out, const kernels::GemmArgs& args, bool vectors) {
  if (args.gated) return;  // a gated epilogue has no parts of K
  out.kernels.push_back({vectors ? "finish" : "any_finish", std::to_string(kernels::gemm_finish_threads), "FinishParameters", "finish_gemm", gemm_libraries(args, false), vectors});
}

namespace {

// What a site is to all implementations: made for the first of them that is asked, and kept with the question.
struct GemmReading {
  std::shared_ptr<const Gemm> gemm;        // null: the site is not a GEMM
  std::shared_ptr<const GemmSite> site;    // null: refused, or a sketch
  std::optional<Refusal> refusal = {};     // by all of them
  std::shared_ptr<OpenGemm> of_all = std::make_shared<OpenGemm>();  // filled by the first that needs it
};

constexpr std::string_view family = "gemm";

GemmReading read(const Site& site, const Target& target, const Settings& settings) {
  GemmReading out{gemm_of(site), nullptr};
  auto refuse = [&](Obstacle obstacle, std::string reason) { out.refusal = Refusal{family, obstacle, std::move(reason)}; };
  if (out.gemm == nullptr) return out;
  const Gemm& g = *out.gemm;
  const bool hopper = target.architecture == 90;
  if (target.architecture < 80) {
    refuse(Obstacle::types, "these matrix instructions need sm_80");
  } else if (!is_placed(g.a) && packing_of(g, hopper)) {
    out.refusal = packed_refusal(g);
  } else if (!is_placed(g.a)) {
    out.refusal = sketch_refusal(g, takes_gemms_of(ir::DType::f32, g, settings), hopper);
  } else if (!g.packed && !takes_gemms_of(g.type, g, settings)) {
    refuse(Obstacle::types, std::string(gemm_types));
  } else {
    GemmSiteAnswer answer = gemm_site(g, *site.body, site.body_layouts(), hopper, all_tiles, site.usual(rows_of(g)));
    out.site = std::move(answer.site);
    if (out.site == nullptr) refuse(answer.obstacle, std::move(answer.reason));
  }
  return out;
}

// Adds the implementation's offer, or its refusal.
void offer_gemm(const GemmCompiler& c, const Site& site, const Target& target, const Settings& settings, Offers& out) {
  const std::string_view name = c.run.kernel;
  const GemmReading& reading = site.reading.of<GemmReading>([&] {
    GemmReading first = read(site, target, settings);
    if (first.refusal) out.refusals.push_back(*first.refusal);
    return first;
  });
  if (reading.gemm == nullptr || reading.refusal || !c.suits(*reading.gemm, target.architecture == 90) || !c.takes(*reading.gemm, target.architecture == 90)) return;
  const Gemm& g = *reading.gemm;
  if (!is_placed(g.a)) {
    const Wish whole_vectors{Role::a, Wish::Axis::k, Wish::Kind::multiple, 16 / static_cast<int64_t>(ir::size_of(g.type))};
    Offer& offer =
        out.offers.emplace_back(Offer{.implementation = name, .cost = c.run.cost(gemm_sizes(site, g, target, settings)), .wishes = {channels_innermost, even_rows, whole_vectors}});
    if (const auto packed = packing_of(g, target.architecture == 90)) offer.packing = packing_for(*packed);
    // Hopper's tiles read floats of B only along K.
    else if (target.architecture == 90 && g.type == ir::DType::f32)
      offer.wishes.push_back({Role::b, Wish::Axis::k});
    return;
  }
  if (!c.may(*reading.site)) return;
  auto step = gemm_step(c, *reading.site, site, settings.rivals, *reading.of_all);
  if (!step) return out.refusals.push_back({name, Obstacle::types, "the kernel cannot read these layouts"});
  const kernels::GemmSizes sizes = gemm_sizes(site, g, target, settings);
  Offer& offer = out.offers.emplace_back(Offer{.implementation = name,
                                               .cost = c.run.cost(sizes),
                                               .wishes = {channels_innermost, even_rows, own_memory},
                                               .emit = [made = std::make_shared<const EmittedStep>(std::move(*step))] { return *made; }});
  // Elsewhere a copy and the library are faster than these kernels; the tiles hold rows of several batches.
  const bool has_tiles = sizes.has_tiles && !(g.type == ir::DType::f32 && has_one_row(g));
  if (!has_tiles) wish_for_merged_rows(offer.wishes, site, g, kernels::gemm::tuning::rows_of_tile, settings.machine, peak_for(g, settings));
  offer.packing = g.packed;
  if (!c.tunable.empty()) offer.tunables = {c.tunable};
}

}  // namespace

// The offers of cuda/run/kernels.def.
#define X(name) \
  void gemm_##name##_offers(const Site& site, const Target& target, const Settings& settings, Offers& out) { offer_gemm(gemm_##name, site, target, settings, out); }
#include "backend/cuda/kernels/gemm/run/implementations.def"
#undef X

}  // namespace ingot::backend::cuda
