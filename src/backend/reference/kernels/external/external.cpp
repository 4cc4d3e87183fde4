#include "backend/reference/compile/offers.h"

namespace ingot::backend::reference {

void external_offers(const Site& site, Offers& out) { offer_host_external(site, out); }

}  // namespace ingot::backend::reference
