#include "backend/reference/compile/offers.h"

namespace ingot::backend::reference {

void sort_offers(const Site& site, Offers& out) { offer_plain(site, {"sort"}, "elements", out); }

}  // namespace ingot::backend::reference
