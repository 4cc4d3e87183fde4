#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/scatter/scatter.h"
#include "backend/cuda/kernels/scatter_atomics/scatter_atomics.h"

namespace ingot::backend::cuda {

// Where results need not be the same in each run.
void scatter_atomics_offers(const Site& site, const Target&, const Settings& settings, Offers& out) {
  constexpr std::string_view name = "atomics";
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || (p->kernel != "scatter" && p->kernel != "scatter_along") || is_sketch(site)) return;
  const kernels::ScatterArgs args = kernels::parse_scatter(p->constants);
  const ir::DType type = site.operands.back().type;
  if (args.kind != kernels::ScatterArgs::Kind::add || !ir::is_float(type)) return out.refusals.push_back({name, Obstacle::types, "it adds floats"});
  if (settings.deterministic != Deterministic::off) return out.refusals.push_back({name, Obstacle::types, "its sums depend on timing; option deterministic=\"off\" allows it"});
  out.offers.push_back({.implementation = name, .emit = [p, args, type] {
                          kernels::CudaPart part = kernels::scatter_atomics_cuda_part(args, type);
                          return EmittedStep{std::string(p->kernel) + "_atomics",
                                             {p->constants.begin(), p->constants.end()},
                                             {},
                                             {{part.name,
                                               part.text,
                                               part.kernels,
                                               {kernels::axes_cuda_text, kernels::elements_cuda_text, kernels::scatter_at_once_cuda_text, kernels::scatter_atomics_cuda_text}}}};
                        }});
}

}  // namespace ingot::backend::cuda
