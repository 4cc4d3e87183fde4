#include "backend/cuda/kernels/gemm/gemm_compiler.h"

#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/kernels/elements.h"
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

// The implementation that says what keeps all of them from a site.
std::string_view general(const Gemm& g) { return g.row_ends != nullptr ? "gemm_ragged" : "gemm_implicit"; }

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

void add_finish(PrintedGemm& out, const kernels::GemmArgs& args, bool vectors) {
  if (args.gated) return;  // a gated epilogue has no parts of K
  out.kernels.push_back({vectors ? "finish" : "any_finish", std::to_string(kernels::gemm_finish_threads), "finish_gemm", gemm_libraries(args, false), vectors});
}

namespace {

// Adds the implementation's offer, or the refusal.
void offer_gemm(const GemmCompiler& c, const Site& site, const Target& target, const Settings& settings, Offers& out) {
  const std::string_view name = c.run.kernel;
  const auto g = gemm_of(site);
  const bool hopper = target.architecture == 90;
  if (g == nullptr || !c.suits(*g)) return;
  const bool is_general = name == general(*g);
  if (!is_general && !c.takes(*g, hopper)) return;
  auto refuse = [&](Obstacle obstacle, std::string reason) {
    if (is_general) out.refusals.push_back({name, obstacle, std::move(reason)});
  };
  if (target.architecture < 80) return refuse(Obstacle::types, "these matrix instructions need sm_80");
  if (!is_placed(g->a)) {
    if (auto refused = sketch_refusal(*g, takes_gemms_of(ir::DType::f32, *g, settings), hopper)) return refuse(refused->obstacle, std::move(refused->reason));
    if (!c.takes(*g, hopper)) return;
    const Wish whole_vectors{Role::a, Wish::Axis::k, Wish::Kind::multiple, 16 / static_cast<int64_t>(ir::size_of(g->type))};
    Offer& offer = out.offers.emplace_back(Offer{.implementation = name, .wishes = {channels_innermost, even_rows, whole_vectors}});
    // Hopper's tiles read floats of B only along K.
    if (hopper && g->type == ir::DType::f32) offer.wishes.push_back({Role::b, Wish::Axis::k});
    return;
  }
  if (!takes_gemms_of(g->type, *g, settings)) return refuse(Obstacle::types, std::string(gemm_types));
  GemmSiteAnswer answer = gemm_site(*g, *site.body, site.body_layouts(), hopper);
  if (answer.site == nullptr) return refuse(answer.obstacle, std::move(answer.reason));
  if (!c.may(*answer.site)) return;
  std::function<EmittedStep()> emit = [&c, of = answer.site, &site, &settings] { return *gemm_step(c, *of, site, settings.rivals); };
  if (!is_general) {
    auto step = gemm_step(c, *answer.site, site, settings.rivals);
    if (!step) return out.refusals.push_back({name, Obstacle::types, "the kernel cannot read these layouts"});
    emit = [made = std::make_shared<const EmittedStep>(std::move(*step))] { return *made; };
  }
  // Elsewhere a copy and the library are faster than these kernels; the tiles hold rows of several batches.
  const bool has_tiles = answer.site->sizes().has_tiles && !(g->type == ir::DType::f32 && has_one_row(*g));
  Offer& offer = out.offers.emplace_back(Offer{.implementation = name,
                                               .cost = c.run.cost(answer.site->sizes()),
                                               .padding = has_tiles ? 0 : padding_of(*g, rows_of_a_tile),
                                               .wishes = {channels_innermost, even_rows, own_memory},
                                               .emit = std::move(emit)});
  if (!c.tunable.empty()) offer.tunables = {c.tunable};
}

}  // namespace

// The offers of cuda/run/kernels.def.
#define X(name) \
  void gemm_##name##_offers(const Site& site, const Target& target, const Settings& settings, Offers& out) { offer_gemm(gemm_##name, site, target, settings, out); }
#include "backend/cuda/kernels/gemm/run/implementations.def"
#undef X

}  // namespace ingot::backend::cuda
