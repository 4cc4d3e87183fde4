#include "backend/reference/compile/offers.h"

namespace ingot::backend::reference {

void scan_offers(const Site& site, Offers& out) { offer_plain(site, {"scan"}, "elements", out); }

}  // namespace ingot::backend::reference
