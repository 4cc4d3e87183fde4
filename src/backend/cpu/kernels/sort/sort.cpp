#include "backend/cpu/compile/offers.h"

namespace ingot::backend::cpu {

void sort_offers(const Site& site, const Settings&, Offers& out) { offer_plain(site, {"sort"}, "lines", out); }

}  // namespace ingot::backend::cpu
