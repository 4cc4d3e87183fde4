#include "backend/cpu/compile/offers.h"

namespace ingot::backend::cpu {

void small_matrix_offers(const Site& site, const Settings&, Offers& out) { offer_plain(site, {"small_matrix"}, "a matrix in each lane", out); }

}  // namespace ingot::backend::cpu
