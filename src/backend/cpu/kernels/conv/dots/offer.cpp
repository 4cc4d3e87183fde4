// Offers convolutions of few columns, with vectors along the elements of a tap.
#include "backend/cpu/kernels/conv/run/tile.h"
#include "backend/cpu/kernels/conv/site.h"
#include "backend/cpu/run/isa.h"

namespace ingot::backend::cpu {

void conv_dots_offers(const Site& site, const Settings& settings, Offers& out) {
  const auto s = conv_site(site, settings);
  if (s == nullptr || s->group_axis != SIZE_MAX || s->sizes.n > kernels::DirectTiles::max_dots) return;
  const kernels::IndexMap::Index& tap = s->map.indices.back();
  const kernels::DirectTiles& tiles = INGOT_TABLES(kernels::direct_tiles).avx2;
  if (tiles.outputs_of_dots == 0 || tap.step != 1 || s->map.leaves(tap) || tap.extent % tiles.lanes != 0) return;
  const double cost = kernels::conv::cost_of_dots(s->sizes, cpu_of(settings));
  if (leaves_to_matmul("conv_dots", cost, *s, settings, out)) return;
  Offer offer = conv_offer("conv_dots", s, cost, true);
  offer.wishes.insert(offer.wishes.end(), {channels_innermost, contiguous_rows});
  out.offers.push_back(std::move(offer));
}

}  // namespace ingot::backend::cpu
