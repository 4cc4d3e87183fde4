#include "backend/cuda/compile/fused_text.h"
#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/fused/run/fused_args.h"

namespace ingot::backend::cuda {

void fused_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  if (!std::holds_alternative<Fused>(site.kernel)) return;
  out.offers.push_back({.implementation = "text", .emit = [&site] {
                          const FusedBody& body = *site.body;
                          Emitted code = emit(body, site.operands);
                          EmittedStep step{"fused", std::move(code.arguments), std::move(code.sizes)};
                          step.sizes.insert(step.sizes.end(), body.outer.begin(), body.outer.end());
                          step.sizes.insert(step.sizes.end(), body.row.begin(), body.row.end());
                          auto kernels = numbered(code.name, kernels::parse_fused_cuda(step.constants).variants.size());
                          step.code.push_back({std::move(code.name), std::move(code.text), std::move(kernels)});
                          step.elementwise = 0;
                          return step;
                        }});
}

}  // namespace ingot::backend::cuda
