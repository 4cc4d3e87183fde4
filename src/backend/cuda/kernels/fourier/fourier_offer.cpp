#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/fourier/fourier.h"

namespace ingot::backend::cuda {

namespace {

std::vector<CodeUnit> code(const Plain& p, std::span<const Operand> operands) {
  kernels::CudaPart part = kernels::fourier_cuda_part(kernels::parse_fourier(p.constants), operands[0].type);
  return std::vector<CodeUnit>{{part.name, part.text, part.kernels, {kernels::axes_cuda_text, kernels::fourier_cuda_text}}};
}

}  // namespace

void fourier_offers(const Site& site, const Target&, const Settings&, Offers& out) { offer_plain(site, {"fourier"}, "transforms in shared memory", out, code); }

}  // namespace ingot::backend::cuda
