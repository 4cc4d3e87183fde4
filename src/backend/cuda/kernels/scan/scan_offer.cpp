#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/scan/scan.h"

namespace ingot::backend::cuda {

namespace {

std::vector<CodeUnit> code(const Plain& p, std::span<const Operand> operands) {
  kernels::CudaPart part = kernels::scan_cuda_part(kernels::parse_scan(p.constants), operands[0].type);
  return std::vector<CodeUnit>{{part.name, part.text, part.kernels, {kernels::axes_cuda_text, kernels::elements_cuda_text, kernels::scan_cuda_text}}};
}

}  // namespace

void scan_offers(const Site& site, const Target&, const Settings&, Offers& out) { offer_plain(site, {"scan"}, "scan", out, code); }

}  // namespace ingot::backend::cuda
