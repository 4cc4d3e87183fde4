#include "backend/reference/compile/offers.h"

namespace ingot::backend::reference {

void fourier_offers(const Site& site, Offers& out) { offer_plain(site, {"fourier"}, "elements", out); }

}  // namespace ingot::backend::reference
