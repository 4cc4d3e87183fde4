#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/scatter/scatter.h"
#include "backend/cuda/kernels/sort/sort.h"

namespace ingot::backend::cuda {

void scatter_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || (p->kernel != "scatter" && p->kernel != "scatter_along")) return;
  auto code = [p] {
    std::vector<CodeUnit> out;
    auto add = [&](std::vector<kernels::CudaPart> parts, std::string_view (*text)()) {
      for (kernels::CudaPart& part : parts) out.push_back({part.name, part.text, part.kernels, {kernels::elements_cuda_text, text}});
    };
    add(kernels::scatter_cuda_parts(kernels::parse_scatter(p->constants), p->types.back()), kernels::scatter_cuda_text);
    add(kernels::sort_keys_cuda_parts(), kernels::sort_cuda_text);
    return out;
  };
  out.offers.push_back({.implementation = "scatter", .emit = [p, code] { return EmittedStep{std::string(p->kernel), {p->constants.begin(), p->constants.end()}, {}, code()}; }});
}

}  // namespace ingot::backend::cuda
