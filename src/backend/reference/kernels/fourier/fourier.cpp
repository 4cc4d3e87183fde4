#include "backend/reference/compile/offers.h"

namespace ingot::backend::reference {

void fourier_offers(const Site& site, Offers& out) {
  constexpr std::string_view name = "elements";
  if (!refuse_several_axes(site, name, out)) offer_plain(site, {"fourier"}, name, out);
}

}  // namespace ingot::backend::reference
