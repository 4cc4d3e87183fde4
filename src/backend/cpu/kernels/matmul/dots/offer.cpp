// Offers products of bfloat16 by dot products of pairs.
#include "backend/cpu/kernels/conv/site.h"
#include "backend/cpu/kernels/matmul/site.h"

namespace ingot::backend::cpu {

void matmul_dots_offers(const Site& site, const Settings& settings, Offers& out) {
  if (const auto s = pairs_site(site, settings)) offer_product("matmul_dots", kernels::matmul::cost_of_dots(s->sizes, cpu_of(settings)), s, site, settings, out);
}

}  // namespace ingot::backend::cpu
