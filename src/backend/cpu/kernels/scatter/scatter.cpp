#include "backend/cpu/compile/offers.h"

namespace ingot::backend::cpu {

void scatter_offers(const Site& site, const Settings&, Offers& out) { offer_plain(site, {"scatter", "scatter_along"}, "lines", out); }

}  // namespace ingot::backend::cpu
