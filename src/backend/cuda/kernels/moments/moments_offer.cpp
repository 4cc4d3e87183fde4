#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/moments/moments.h"
#include "kernels/moments/run/moments_args.h"

namespace ingot::backend::cuda {

namespace {

std::vector<CodeUnit> code(const Plain& p) {
  std::vector<CodeUnit> out;
  for (kernels::CudaPart& part : kernels::moments_cuda_parts(p.types[0])) {
    out.push_back({part.name, part.text, part.kernels, {kernels::axes_cuda_text, kernels::moments_cuda_text}});
  }
  return out;
}

// True for few long rows: a fused body gives each one block, which leaves most multiprocessors idle, and rereads what it cannot keep.
bool pays(const kernels::MomentsArgs& args, const ir::Dims& dims) {
  constexpr int64_t long_row = 8192, many_rows = 1024;
  int64_t rows = 1, length = 1;
  for (size_t d = 0; d < dims.size(); ++d) (args.reduced[d] != 0 ? length : rows) *= dims[d].constant().value_or(1);
  return length >= long_row && rows < many_rows;
}

}  // namespace

void moments_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  constexpr std::string_view name = "moments";
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || p->kernel != name) return;
  if (!kernels::takes_moments_of(p->types[0])) return out.refusals.push_back({name, Obstacle::types, "for float16, bfloat16 and float32"});
  if (!site.operands.empty() && !pays(kernels::parse_moments(p->constants), site.operands[0].dims)) {
    return out.refusals.push_back({name, Obstacle::cost, "a fused body is faster for short rows, and for many"});
  }
  offer_plain(site, {name}, name, out, code);
}

}  // namespace ingot::backend::cuda
