#include "backend/cpu/compile/offers.h"

namespace ingot::backend::cpu {

void fourier_offers(const Site& site, const Settings&, Offers& out) { offer_plain(site, {"fourier"}, "rows side by side", out); }

}  // namespace ingot::backend::cpu
