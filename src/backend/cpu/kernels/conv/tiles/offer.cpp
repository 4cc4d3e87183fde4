// Offers convolutions by register tiles of outputs and columns.
#include "backend/cpu/kernels/conv/site.h"

namespace ingot::backend::cpu {

void conv_tiles_offers(const Site& site, const Settings& settings, Offers& out) {
  std::optional<std::string> obstacle;
  const auto s = conv_site(site, settings, &obstacle);
  if (obstacle) out.refusals.push_back({"conv_tiles", Obstacle::types, std::move(*obstacle)});
  if (s == nullptr) return;
  const double cost = kernels::conv::cost_of_tiles(s->sizes, cpu_of(settings));
  if (leaves_to_matmul("conv_tiles", cost, *s, settings, out)) return;
  Offer offer = conv_offer("conv_tiles", s, cost, true);
  offer.wishes.insert(offer.wishes.end(), {channels_innermost, contiguous_rows});
  out.offers.push_back(std::move(offer));
}

}  // namespace ingot::backend::cpu
