#include "backend/cpu/compile/offers.h"

namespace ingot::backend::cpu {

void external_offers(const Site& site, const Settings&, Offers& out) { offer_host_external(site, out); }

}  // namespace ingot::backend::cpu
