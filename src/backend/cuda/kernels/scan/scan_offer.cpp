#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/scan/scan.h"

namespace ingot::backend::cuda {

void scan_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || (p->kernel != "scan")) return;
  auto code = [p] {
    kernels::CudaPart part = kernels::scan_cuda_part(kernels::parse_scan(p->constants), p->types[0]);
    return std::vector<CodeUnit>{{part.name, part.text, part.kernels, {kernels::elements_cuda_text, kernels::scan_cuda_text}}};
  };
  out.offers.push_back({.implementation = "scan", .emit = [p, code] { return EmittedStep{std::string(p->kernel), {p->constants.begin(), p->constants.end()}, {}, code()}; }});
}

}  // namespace ingot::backend::cuda
