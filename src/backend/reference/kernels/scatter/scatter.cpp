#include "backend/reference/compile/offers.h"

namespace ingot::backend::reference {

void scatter_offers(const Site& site, Offers& out) { offer_plain(site, {"scatter", "scatter_along"}, "elements", out); }

}  // namespace ingot::backend::reference
