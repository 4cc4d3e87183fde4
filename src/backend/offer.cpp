#include "backend/offer.h"

#include <algorithm>

namespace ingot::backend {

std::optional<std::vector<int64_t>> map_steps(const ir::AffineMap& map, std::vector<ir::Dim>& sizes) {
  std::vector<int64_t> steps(map.axes.size() * map.dims.size());
  sizes.insert(sizes.end(), map.dims.begin(), map.dims.end());
  for (size_t j = 0; j < map.axes.size(); ++j) {
    for (const ir::AffineMap::Term& t : map.axes[j].terms) {
      if (t.coefficient < 0 || t.coefficient > INT32_MAX) return std::nullopt;
      steps[j * map.dims.size() + t.axis] = t.coefficient;
    }
    sizes.push_back(map.axes[j].offset);
  }
  return steps;
}

std::string_view name_of(const Site& site) {
  struct Name {
    std::string_view operator()(const Fused&) const { return "fused"; }
    std::string_view operator()(const Gemm&) const { return "gemm"; }
    std::string_view operator()(const DepthwiseConv&) const { return "depthwise_conv"; }
    std::string_view operator()(const Attention&) const { return "attention"; }
    std::string_view operator()(const Plain& p) const { return p.kernel; }
  };
  return std::visit(Name{}, site.kernel);
}

void offer_plain(const Site& site, std::initializer_list<std::string_view> kernels, std::string_view implementation, Offers& out, std::vector<CodeUnit> (*code)(const Plain&)) {
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || std::find(kernels.begin(), kernels.end(), p->kernel) == kernels.end()) return;
  out.offers.push_back({.implementation = implementation, .emit = [p, code] {
                          return EmittedStep{std::string(p->kernel), {p->constants.begin(), p->constants.end()}, {}, code == nullptr ? std::vector<CodeUnit>() : code(*p)};
                        }});
}

}  // namespace ingot::backend
