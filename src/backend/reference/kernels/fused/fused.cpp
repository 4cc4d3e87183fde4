#include "backend/reference/compile/offers.h"

namespace ingot::backend::reference {

void fused_offers(const Site& site, Offers& out) {
  if (!std::holds_alternative<Fused>(site.kernel)) return;
  out.offers.push_back({.implementation = "elements", .emit = [body = site.body] {
                          EmittedStep step{"fused", {}, {}};
                          FieldWriter constants;
                          write_body(*body, constants, step.sizes);
                          step.constants = std::move(constants.out);
                          return step;
                        }});
}

}  // namespace ingot::backend::reference
