// Offers products of bfloat16 by matrix registers.
#include "backend/cpu/kernels/conv/site.h"
#include "backend/cpu/kernels/matmul/site.h"

namespace ingot::backend::cpu {

void matmul_matrix_offers(const Site& site, const Settings& settings, Offers& out) {
  if (const auto s = pairs_site(site, settings)) offer_product("matmul_matrix", kernels::matmul::cost_of_matrix(s->sizes, cpu_of(settings)), s, site, settings, out);
}

}  // namespace ingot::backend::cpu
