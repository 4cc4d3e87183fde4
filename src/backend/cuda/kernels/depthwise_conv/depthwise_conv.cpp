#include <set>

#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/depthwise_conv/depthwise_conv_text.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_cuda_args.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_launches.h"
#include "backend/cuda/kernels/known_code.h"
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::backend::cuda {

namespace {

EmittedStep step_of(EmittedDepthwiseConv code) {
  EmittedStep step{"depthwise_conv", std::move(code.arguments), std::move(code.sizes)};
  step.code.push_back({std::move(code.name), std::move(code.text), std::move(code.kernels), {depthwise_conv_text}});
  step.elementwise = 2;
  return step;
}

// If all sizes are known, kernels that no launch of these sizes and addresses uses are not printed.
EmittedStep emit(const DepthwiseConv& w, const Site& site) {
  EmittedStep step = step_of(emit_depthwise_conv(w, *site.body, site.operands));
  const kernels::DepthwiseConvCudaArgs args = kernels::parse_depthwise_conv_cuda(step.constants);
  KnownCall known;
  bool is_known = known.add(step.sizes) && known.add(w.a, args.operands[0].dtype) && known.add(w.b, args.operands[1].dtype);
  for (size_t k = 0; is_known && k < site.operands.size(); ++k) is_known = known.add(site.operands[k], args.operands[2 + k].dtype);
  if (!is_known) return step;
  std::set<std::string> used;
  add_kernels(kernels::depthwise_conv_cuda_launches(known.call(&args), {}), site, used);
  if (used.size() != 1) return step;
  return step_of(emit_depthwise_conv(w, *site.body, site.operands, {used.contains(args.name + "_0") ? 0 : 1}));
}

}  // namespace

void depthwise_conv_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  constexpr std::string_view name = "channels or lines";
  const auto* w = std::get_if<DepthwiseConv>(&site.kernel);
  if (w == nullptr) return;
  const bool widened = w->of_a == ir::DType::f16 || w->of_a == ir::DType::bf16;
  if (w->type != ir::DType::f32 || !(w->of_a == w->type || widened)) return out.refusals.push_back({name, Obstacle::types, "sums are float32, of that or a half type"});
  if (w->map.dims.empty()) return out.offers.push_back({.implementation = name});  // a sketch
  if (auto o = depthwise_conv_obstacle(*w, *site.body, site.operands)) return out.refusals.push_back({name, o->obstacle, std::move(o->reason)});
  // An image whose lines are contiguous is read as it lies.
  out.offers.push_back({.implementation = name, .image_in_place = true, .emit = [w, &site] { return emit(*w, site); }});
}

}  // namespace ingot::backend::cuda
