#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/depthwise_conv/depthwise_conv_text.h"

namespace ingot::backend::cuda {

void depthwise_conv_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  constexpr std::string_view name = "channels or lines";
  const auto* w = std::get_if<DepthwiseConv>(&site.kernel);
  if (w == nullptr) return;
  const bool widened = w->of_a == ir::DType::f16 || w->of_a == ir::DType::bf16;
  if (w->type != ir::DType::f32 || !(w->of_a == w->type || widened)) return out.refusals.push_back({name, Obstacle::types, "sums are float32, of that or a half type"});
  if (w->map.dims.empty()) return out.offers.push_back({.implementation = name});  // a sketch
  if (auto o = depthwise_conv_obstacle(*w, *site.body, site.operands)) return out.refusals.push_back({name, o->obstacle, std::move(o->reason)});
  // An image whose lines are contiguous is read as it lies.
  out.offers.push_back({.implementation = name, .image_in_place = true, .emit = [w, &site] {
                          EmittedDepthwiseConv code = emit_depthwise_conv(*w, *site.body, site.operands);
                          EmittedStep step{"depthwise_conv", std::move(code.arguments), std::move(code.sizes)};
                          step.code.push_back({std::move(code.name), std::move(code.text), std::move(code.kernels), {depthwise_conv_text}});
                          step.elementwise = 2;
                          return step;
                        }});
}

}  // namespace ingot::backend::cuda
