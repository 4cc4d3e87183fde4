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

EmittedStep step_of(std::string_view kernel, EmittedDepthwiseConv code) {
  EmittedStep step{std::string(kernel), std::move(code.arguments), std::move(code.sizes)};
  step.code.push_back({std::move(code.name), std::move(code.text), std::move(code.kernels), {depthwise_conv_text}});
  if (code.matrices) step.code[0].libraries = {matrix_instructions, matrix_text, depthwise_conv_text};
  return step;
}

}  // namespace

EmittedStep emit_windows(std::string_view kernel, const std::function<EmittedDepthwiseConv(const std::vector<int>&)>& print, const StridedLayout& a, const StridedLayout& b,
                         const Site& site) {
  EmittedStep step = step_of(kernel, print({0, 1}));
  const kernels::DepthwiseConvCudaArgs args = kernels::parse_depthwise_conv_cuda(step.constants);
  KnownCall known;
  bool is_known = known.add(step.sizes) && known.add(a, args.operands[0].dtype) && known.add(b, args.operands[1].dtype);
  const std::vector<StridedLayout> layouts = site.body_layouts();
  for (size_t k = 0; is_known && k < layouts.size(); ++k) is_known = known.add(layouts[k], args.operands[kernels::body_operand(k)].dtype);
  if (!is_known) return step;
  std::set<std::string> used;
  add_kernels(kernels::depthwise_conv_cuda_launches(known.call(&args), {}), site, used);
  if (used.size() != 1) return step;
  return step_of(kernel, print({used.contains(args.name + "_0") ? 0 : 1}));
}

void depthwise_conv_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  constexpr std::string_view name = "channels or lines";
  const auto w = depthwise_of(site);
  if (w == nullptr) return;
  const bool widened = w->of_a == ir::DType::f16 || w->of_a == ir::DType::bf16;
  if (w->type != ir::DType::f32 || !(w->of_a == w->type || widened)) return out.refusals.push_back({name, Obstacle::types, "sums are float32, of that or a half type"});
  if (w->map.dims.empty()) return out.offers.push_back({.implementation = name});  // a sketch
  if (auto o = depthwise_conv_obstacle(*w, *site.body, site.body_layouts())) return out.refusals.push_back({name, o->obstacle, std::move(o->reason)});
  // An image whose lines are contiguous is read as it lies.
  auto print = [w, &site](const std::vector<int>& variants) { return emit_depthwise_conv(*w, *site.body, site.body_layouts(), variants); };
  out.offers.push_back({.implementation = name, .emit = [print, w, &site] { return emit_windows("depthwise_conv", print, w->a, w->b, site); }});
}

}  // namespace ingot::backend::cuda
