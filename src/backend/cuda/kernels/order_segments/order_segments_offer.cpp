#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/order_segments/order_segments.h"

namespace ingot::backend::cuda {

namespace {

std::vector<CodeUnit> code(const Plain&, std::span<const Operand>) {
  kernels::CudaPart part = kernels::order_segments_cuda_part();
  return std::vector<CodeUnit>{{part.name, part.text, part.kernels, {kernels::axes_cuda_text, kernels::elements_cuda_text, kernels::order_segments_cuda_text}}};
}

}  // namespace

void order_segments_offers(const Site& site, const Target&, const Settings&, Offers& out) { offer_plain(site, {"order_segments"}, "buckets", out, code); }

}  // namespace ingot::backend::cuda
