#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/sort/sort.h"

namespace ingot::backend::cuda {

namespace {

std::vector<CodeUnit> code(const Plain&, std::span<const Operand> operands) {
  std::vector<CodeUnit> out;
  for (kernels::CudaPart& part : kernels::sort_cuda_parts(operands[0].type))
    out.push_back({part.name, part.text, part.kernels, {kernels::axes_cuda_text, kernels::elements_cuda_text, kernels::sort_cuda_text}});
  return out;
}

}  // namespace

void sort_offers(const Site& site, const Target&, const Settings&, Offers& out) { offer_plain(site, {"sort"}, "sort", out, code); }

}  // namespace ingot::backend::cuda
