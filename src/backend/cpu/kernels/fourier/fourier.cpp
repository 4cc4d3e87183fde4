#include "backend/cpu/compile/offers.h"

namespace ingot::backend::cpu {

void fourier_offers(const Site& site, const Settings&, Offers& out) {
  constexpr std::string_view name = "rows side by side";
  if (!refuse_several_axes(site, name, out)) offer_plain(site, {"fourier"}, name, out);
}

}  // namespace ingot::backend::cpu
