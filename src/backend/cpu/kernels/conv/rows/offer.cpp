// Offers convolutions of bfloat16 and float64 by copied rows of windows.
#include "backend/cpu/kernels/conv/rows/run/cost.h"
#include "backend/cpu/kernels/conv/site.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::backend::cpu {

void conv_rows_offers(const Site& site, const Settings& settings, Offers& out) {
  std::optional<std::string> obstacle;
  const auto s = other_conv_site(site, settings, &obstacle);
  if (obstacle) out.refusals.push_back({"conv_rows", Obstacle::types, std::move(*obstacle)});
  if (s == nullptr || (!s->sizes.mapped && s->group_axis == SIZE_MAX)) return;
  const Gemm& g = s->gemm;
  Offer offer = conv_offer("conv_rows", s, kernels::conv::cost_of_copied_rows(s->sizes, g.type, cpu_of(settings)), true);
  offer.wishes.insert(offer.wishes.end(), {channels_innermost, contiguous_rows});
  const ir::Dims& b = g.b[0].dims;
  if (g.constant && b.size() == 2 && b[0].is_constant() && b[1].is_constant()) offer.packing = Packing{"matmul_pack", kernels::panels_of(g.type)};
  out.offers.push_back(std::move(offer));
}

}  // namespace ingot::backend::cpu
