#include "backend/cpu/compile/byte_code.h"
#include "backend/cpu/compile/offers.h"

namespace ingot::backend::cpu {

void fused_offers(const Site& site, const Settings&, Offers& out) {
  if (!std::holds_alternative<Fused>(site.kernel)) return;
  out.offers.push_back({.implementation = "byte code", .emit = [body = site.body] {
                          Emitted code = emit(*body);
                          EmittedStep step{"fused", std::move(code.code), std::move(code.sizes)};
                          step.sizes.insert(step.sizes.end(), body->outer.begin(), body->outer.end());
                          step.sizes.insert(step.sizes.end(), body->row.begin(), body->row.end());
                          step.elementwise = 0;
                          return step;
                        }});
}

}  // namespace ingot::backend::cpu
