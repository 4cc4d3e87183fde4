#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/reduce_segments/reduce_segments.h"
#include "backend/cuda/kernels/reduce_segments/run/tuning.h"

namespace ingot::backend::cuda {

namespace {

using namespace kernels::reduce_segments_tuning;

std::vector<CodeUnit> code(const Plain& p, std::span<const Operand> operands) {
  kernels::CudaPart part = kernels::reduce_segments_cuda_part(kernels::parse_reduce_segments(p.constants), operands[0].type);
  return std::vector<CodeUnit>{{part.name, part.text, part.kernels, {kernels::axes_cuda_text, kernels::elements_cuda_text, kernels::reduce_segments_cuda_text}}};
}

// True if an order of its own costs less than scattering by atomic operations.
bool pays(const Site& site) {
  const ir::Dims& x = site.operands[0].layout.dims;
  auto length = [&](size_t operand) { return static_cast<double>(site.usual(site.operands[operand].layout.dims[0]).value_or(0)); };
  const double rows = length(1), segments = length(2);
  double elements = 1;
  for (size_t d = 1; d < x.size(); ++d) elements *= static_cast<double>(site.usual(x[d]).value_or(1));
  return rows >= min_rows && elements >= min_elements && segments <= max_segments * rows;
}

}  // namespace

void reduce_segments_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  constexpr std::string_view name = "reduce_segments";
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || p->kernel != name) return;
  if (is_sketch(site) && !pays(site))
    return out.refusals.push_back({name, Obstacle::cost, "few or short rows, or rows for many more places, are scattered faster than put in order"});
  offer_plain(site, {name}, "segments", out, code);
}

}  // namespace ingot::backend::cuda
