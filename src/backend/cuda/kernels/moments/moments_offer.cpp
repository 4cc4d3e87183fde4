#include <set>

#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/known_code.h"
#include "backend/cuda/kernels/moments/moments.h"
#include "backend/cuda/kernels/moments/run/moments_launches.h"
#include "backend/cuda/kernels/moments/run/tuning.h"
#include "kernels/moments/run/moments_args.h"

namespace ingot::backend::cuda {

namespace {

// If all sizes are known, only the kernels that are launched, which are the same on all GPUs.
std::vector<CodeUnit> code(const kernels::MomentsArgs& args, const Site& site) {
  KnownCall known;
  bool is_known = true;
  for (size_t k = 0; is_known && k < site.operands.size(); ++k) is_known = known.add(site.operands[k].layout, site.operands[k].type);
  std::set<std::string> used;
  if (is_known) add_kernels(kernels::moments_cuda_launches(known.call(&args), {1, false}), site, used);
  std::vector<CodeUnit> out;
  for (kernels::CudaPart& part : kernels::moments_cuda_parts(site.operands[0].type)) {
    if (is_known && !used.contains(part.name)) continue;
    out.push_back({std::move(part.name), std::move(part.text), std::move(part.kernels), {kernels::axes_cuda_text, kernels::moments_cuda_text}});
  }
  return out;
}

// True for few long rows: a fused body gives each one block, which leaves most multiprocessors idle, and rereads what it cannot keep.
bool pays(const kernels::MomentsArgs& args, const ir::Dims& dims) {
  using namespace kernels::moments_cuda_tuning;
  int64_t rows = 1, length = 1;
  for (size_t d = 0; d < dims.size(); ++d) (args.reduced[d] != 0 ? length : rows) *= dims[d].constant().value_or(1);
  return length >= min_row && rows < max_rows;
}

}  // namespace

void moments_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  constexpr std::string_view name = "moments";
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || p->kernel != name) return;
  if (!kernels::takes_moments_of(site.operands[0].type)) return out.refusals.push_back({name, Obstacle::types, "for float16, bfloat16 and float32"});
  const kernels::MomentsArgs args = kernels::parse_moments(p->constants);
  if (is_sketch(site) && !pays(args, site.operands[0].layout.dims)) {
    return out.refusals.push_back({name, Obstacle::cost, "a fused body is faster for short rows, and for many"});
  }
  out.offers.push_back(
      {.implementation = name, .emit = [p, args, &site] { return EmittedStep{std::string(p->kernel), {p->constants.begin(), p->constants.end()}, {}, code(args, site)}; }});
}

}  // namespace ingot::backend::cuda
