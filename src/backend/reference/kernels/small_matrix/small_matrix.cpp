#include "backend/reference/compile/offers.h"

namespace ingot::backend::reference {

void small_matrix_offers(const Site& site, Offers& out) { offer_plain(site, {"small_matrix"}, "elements", out); }

}  // namespace ingot::backend::reference
