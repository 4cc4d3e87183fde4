// Offers convolutions of groups with fewer columns than a vector.
#include "backend/cpu/kernels/conv/run/tile.h"
#include "backend/cpu/kernels/conv/site.h"
#include "backend/cpu/run/isa.h"

namespace ingot::backend::cpu {

void conv_groups_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto s = conv_site(site, settings);
  if (s == nullptr || s->group_axis == SIZE_MAX) return;
  const auto& tiles = INGOT_TABLES(kernels::direct_tiles).avx2;
  const auto channels = static_cast<int64_t>(s->map.indices[s->group_axis].step);
  if (s->sizes.n >= tiles.lanes || s->sizes.groups * s->sizes.n < tiles.lanes || tiles.narrow(channels, s->sizes.n) == nullptr) return;
  if (channels > 1 && s->sizes.run != channels) return;
  // If columns do not fill whole vectors, the last ones are computed twice.
  const bool once = s->sizes.groups * s->sizes.n % tiles.lanes == 0;
  Offer offer = conv_offer("conv_groups", s, kernels::conv::cost_of_groups(s->sizes, cpu_of(settings)), once);
  offer.wishes.insert(offer.wishes.end(), {channels_innermost, contiguous_rows});
  out.offers.push_back(std::move(offer));
}

}  // namespace ingot::backend::cpu
