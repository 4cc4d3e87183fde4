#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/small_matrix/small_matrix.h"

namespace ingot::backend::cuda {

namespace {

std::vector<CodeUnit> code(const Plain& p, std::span<const Operand> operands) {
  kernels::CudaPart part = kernels::small_matrix_cuda_part(kernels::parse_small_matrix(p.constants), operands[0].type);
  return std::vector<CodeUnit>{{part.name, part.text, part.kernels, {kernels::axes_cuda_text, kernels::small_matrix_cuda_text}}};
}

}  // namespace

void small_matrix_offers(const Site& site, const Target&, const Settings&, Offers& out) { offer_plain(site, {"small_matrix"}, "a row in each thread", out, code); }

}  // namespace ingot::backend::cuda
