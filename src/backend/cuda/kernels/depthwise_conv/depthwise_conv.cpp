#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/depthwise_conv/depthwise_conv_text.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_launches.h"

namespace ingot::backend::cuda {

void depthwise_conv_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  constexpr std::string_view name = "channels or lines";
  const auto w = depthwise_of(site);
  if (w == nullptr) return;
  const bool widened = w->of_a == ir::DType::f16 || w->of_a == ir::DType::bf16;
  if (w->type != ir::DType::f32 || !(w->of_a == w->type || widened)) return out.refusals.push_back({name, Obstacle::types, "sums are float32, of that or a half type"});
  if (w->map.dims.empty()) return out.offers.push_back({.implementation = name});  // a sketch
  if (auto o = depthwise_conv_obstacle(*w, *site.body, site.body_layouts())) return out.refusals.push_back({name, o->obstacle, std::move(o->reason)});
  // An image whose lines are contiguous is read in place.
  auto print = [w, &site](const std::vector<int>& variants) { return emit_depthwise_conv(*w, *site.body, site.body_layouts(), variants); };
  out.offers.push_back(
      {.implementation = name, .emit = [print, &site] { return step_of_used({kernels::load_depthwise_conv_cuda, kernels::depthwise_conv_cuda_launches}, print, site); }});
}

}  // namespace ingot::backend::cuda
