#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/scatter/run/scatter_args.h"
#include "backend/cuda/kernels/scatter/scatter.h"
#include "backend/cuda/kernels/sort/sort.h"

namespace ingot::backend::cuda {

namespace {

std::vector<CodeUnit> code(const Plain& p, std::span<const Operand> operands) {
  std::vector<CodeUnit> out;
  auto add = [&](std::vector<kernels::CudaPart> parts, std::string_view (*text)()) {
    for (kernels::CudaPart& part : parts) out.push_back({part.name, part.text, part.kernels, {kernels::axes_cuda_text, kernels::elements_cuda_text, text}});
  };
  const kernels::ScatterArgs args = kernels::parse_scatter(p.constants);
  const ir::DType type = operands.back().type;
  add(kernels::scatter_at_once_cuda_parts(args, type), kernels::scatter_at_once_cuda_text);
  add(kernels::scatter_cuda_parts(args, type), kernels::scatter_cuda_text);
  if (kernels::scatter_way(args.kind, type) != kernels::ScatterWay::at_once) add(kernels::sort_keys_cuda_parts(), kernels::sort_cuda_text);
  return out;
}

}  // namespace

void scatter_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  if (const auto* p = std::get_if<Plain>(&site.kernel); p != nullptr && p->kernel == "scatter" && is_sketch(site))
    return out.refusals.push_back({"scatter", Obstacle::cost, "where a fused body can add up what each element reads, it is faster"});
  offer_plain(site, {"scatter", "scatter_along"}, "scatter", out, code);
}

}  // namespace ingot::backend::cuda
