#include "backend/cpu/compile/offers.h"

namespace ingot::backend::cpu {

void sort_offers(const Site& site, const Settings&, Offers& out) {
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || (p->kernel != "sort")) return;
  out.offers.push_back({.implementation = "lines", .emit = [p] { return EmittedStep{std::string(p->kernel), {p->constants.begin(), p->constants.end()}, {}}; }});
}

}  // namespace ingot::backend::cpu
