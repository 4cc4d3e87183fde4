#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/sort/sort.h"

namespace ingot::backend::cuda {

void sort_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || (p->kernel != "sort")) return;
  auto code = [p] {
    std::vector<CodeUnit> out;
    for (kernels::CudaPart& part : kernels::sort_cuda_parts(p->types[0]))
      out.push_back({part.name, part.text, part.kernels, {kernels::elements_cuda_text, kernels::sort_cuda_text}});
    return out;
  };
  out.offers.push_back({.implementation = "sort", .emit = [p, code] { return EmittedStep{std::string(p->kernel), {p->constants.begin(), p->constants.end()}, {}, code()}; }});
}

}  // namespace ingot::backend::cuda
