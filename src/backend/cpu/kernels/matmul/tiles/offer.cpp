// Offers products by register tiles, of any type.
#include "backend/cpu/kernels/conv/site.h"
#include "backend/cpu/kernels/matmul/site.h"

namespace ingot::backend::cpu {

void matmul_offers(const Site& site, const Settings& settings, Offers& out) {
  std::optional<Refusal> refusal;
  const auto s = product_site(site, settings, &refusal);
  if (refusal) out.refusals.push_back(std::move(*refusal));
  if (s != nullptr) offer_product("matmul", site.body == nullptr ? 0 : kernels::matmul::cost_of_tiles(s->sizes, cpu_of(settings)), s, site, settings, out);
}

}  // namespace ingot::backend::cpu
