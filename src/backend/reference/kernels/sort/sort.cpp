#include "backend/reference/compile/offers.h"

namespace ingot::backend::reference {

void sort_offers(const Site& site, Offers& out) {
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || p->kernel != "sort") return;
  out.offers.push_back({.implementation = "elements", .emit = [p] { return EmittedStep{std::string(p->kernel), {p->constants.begin(), p->constants.end()}, {}}; }});
}

}  // namespace ingot::backend::reference
