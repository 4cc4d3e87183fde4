#include <set>

#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/depthwise_conv/depthwise_conv_text.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_cuda_args.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_launches.h"
#include "backend/cuda/kernels/gemm/gemm.h"
#include "backend/cuda/kernels/known_code.h"
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::backend::cuda {

using ir::Dim;

namespace {

EmittedStep step_of(EmittedDepthwiseConv code) {
  EmittedStep step{"depthwise_conv", std::move(code.arguments), std::move(code.sizes)};
  step.code.push_back({std::move(code.name), std::move(code.text), std::move(code.kernels), {depthwise_conv_text}});
  if (code.matrices) step.code[0].libraries = {matrix_instructions, matrix_text, depthwise_conv_text};
  return step;
}

// `print`: of these variants. If all sizes are known, kernels that no launch of these sizes and addresses uses are not printed.
EmittedStep emit(const std::function<EmittedDepthwiseConv(const std::vector<int>&)>& print, const StridedLayout& a, const StridedLayout& b, const Site& site) {
  EmittedStep step = step_of(print({0, 1}));
  const kernels::DepthwiseConvCudaArgs args = kernels::parse_depthwise_conv_cuda(step.constants);
  KnownCall known;
  bool is_known = known.add(step.sizes) && known.add(a, args.operands[0].dtype) && known.add(b, args.operands[1].dtype);
  const std::vector<StridedLayout> layouts = site.body_layouts();
  for (size_t k = 0; is_known && k < layouts.size(); ++k) is_known = known.add(layouts[k], args.operands[kernels::body_operand(k)].dtype);
  if (!is_known) return step;
  std::set<std::string> used;
  add_kernels(kernels::depthwise_conv_cuda_launches(known.call(&args), {}), site, used);
  if (used.size() != 1) return step;
  return step_of(print({used.contains(args.name + "_0") ? 0 : 1}));
}

constexpr int64_t longest_of_group = 512;  // of one thread
constexpr int64_t longest_sum = 1024;  // of the threads that share it

// True if sums by single threads cost less than what the other ways to multiply by so few columns copy, or multiply for nothing (estimates).
bool has_few_columns(const Gemm& g) {
  constexpr int64_t most_alone = int64_t{1} << 26;
  Dim rows = g.map ? Dim(1) : rows_of(g);
  for (size_t i = 0; g.map && i < g.batch_rank + g.m_rank; ++i) rows *= g.map->dims[i];
  const auto n = g.b[0].dims.back().constant(), k = g.b[0].dims[g.b[0].dims.size() - 2].constant(), m = rows.constant();
  return g.convolution && n && *n <= most_columns_alone && k && *k <= longest_sum && (!m || *m * *k * *n <= most_alone);
}

void grouped_convolution_offers(const std::shared_ptr<const Gemm>& gemm, const Site& site, const Target& target, const Settings& settings, Offers& out) {
  constexpr std::string_view name = "columns of a group";
  const Gemm& g = *gemm;
  if (!g.convolution) return;
  if (!is_placed(g.a)) {
    if (has_few_columns(g)) out.offers.push_back({.implementation = name, .wishes = {even_rows}});  // a sketch; of groups, windows are asked for first anyway
    return;
  }
  if (!g.convolution || !g.map) return;
  if (auto o = grouped_convolution_obstacle(g, *site.body, site.body_layouts())) return out.refusals.push_back({name, o->obstacle, std::move(o->reason)});
  const bool groups = std::any_of(g.b[0].strides.begin(), g.b[0].strides.begin() + static_cast<int64_t>(g.batch_rank), [](const Dim& s) { return !is(s, 0); });
  if (groups ? g.b[0].dims[g.batch_rank].value() > longest_of_group : !has_few_columns(g))
    return out.refusals.push_back({name, Obstacle::cost, "so many products are faster by matrix instructions"});
  const bool matrices = target.architecture >= 80 && (is_half(g.type) || settings.tf32_convolutions);
  auto print = [gemm, &site, matrices](const std::vector<int>& variants) { return emit_grouped_convolution(*gemm, *site.body, site.body_layouts(), matrices, variants); };
  const double k = static_cast<double>(g.b[0].dims[g.batch_rank].value());
  out.offers.push_back({.implementation = name, .cost = k, .wishes = {even_rows}, .emit = [print, gemm, &site] { return emit(print, gemm->a, gemm->b[0], site); }});
}

}  // namespace

void depthwise_conv_offers(const Site& site, const Target& target, const Settings& settings, Offers& out) {
  constexpr std::string_view name = "channels or lines";
  if (const auto g = gemm_of(site)) return grouped_convolution_offers(g, site, target, settings, out);
  const auto w = depthwise_of(site);
  if (w == nullptr) return;
  const bool widened = w->of_a == ir::DType::f16 || w->of_a == ir::DType::bf16;
  if (w->type != ir::DType::f32 || !(w->of_a == w->type || widened)) return out.refusals.push_back({name, Obstacle::types, "sums are float32, of that or a half type"});
  if (w->map.dims.empty()) return out.offers.push_back({.implementation = name});  // a sketch
  if (auto o = depthwise_conv_obstacle(*w, *site.body, site.body_layouts())) return out.refusals.push_back({name, o->obstacle, std::move(o->reason)});
  // An image whose lines are contiguous is read as it lies.
  auto print = [w, &site](const std::vector<int>& variants) { return emit_depthwise_conv(*w, *site.body, site.body_layouts(), variants); };
  out.offers.push_back({.implementation = name, .emit = [print, w, &site] { return emit(print, w->a, w->b, site); }});
}

}  // namespace ingot::backend::cuda
