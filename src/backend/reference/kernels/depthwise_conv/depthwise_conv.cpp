#include "backend/reference/compile/offers.h"
#include "backend/reference/kernels/depthwise_conv/run/depthwise_conv_args.h"
#include "kernels/run/index_map.h"

namespace ingot::backend::reference {

namespace {

std::optional<std::string> obstacle(const DepthwiseConv& w) {
  if (w.map.dims.empty()) return std::nullopt;  // a sketch
  std::vector<ir::Dim> ignored;
  if (w.map.axes.size() > kernels::IndexMap::max_axes || w.map.dims.size() > kernels::max_rank) return "too many axes";
  if (!map_steps(w.map, ignored)) return "an index goes backwards";
  return std::nullopt;
}

EmittedStep emit_depthwise_conv(const DepthwiseConv& w, const FusedBody& body) {
  EmittedStep step{"depthwise_conv", {}, {}};
  auto steps = map_steps(w.map, step.sizes);
  FieldWriter constants;
  const DepthwiseConvConstants args{static_cast<uint8_t>(w.kept), static_cast<uint8_t>(w.map.dims.size() - w.kept), static_cast<uint8_t>(w.map.axes.size()), std::move(*steps)};
  depthwise_conv_fields(constants, args);
  write_body(body, constants, step.sizes);
  step.constants = std::move(constants.out);
  return step;
}

}  // namespace

void depthwise_conv_offers(const Site& site, Offers& out) {
  const auto w = depthwise_of(site);
  if (w == nullptr) return;
  if (auto reason = obstacle(*w)) return out.refusals.push_back({"sums", Obstacle::types, std::move(*reason)});
  out.offers.push_back({.implementation = "sums", .wishes = {channels_innermost, own_memory}, .emit = [w, body = site.body] { return emit_depthwise_conv(*w, *body); }});
}

}  // namespace ingot::backend::reference
