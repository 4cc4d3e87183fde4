#include "backend/cpu/compile/offers.h"

namespace ingot::backend::cpu {

void scan_offers(const Site& site, const Settings&, Offers& out) { offer_plain(site, {"scan"}, "lines", out); }

}  // namespace ingot::backend::cpu
