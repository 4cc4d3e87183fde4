#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/grid_sample/grid_sample.h"

namespace ingot::backend::cuda {

namespace {

constexpr std::string_view implementation = "a point in each thread";

std::vector<CodeUnit> code(const Plain& p, std::span<const Operand> operands) {
  kernels::CudaPart part = kernels::grid_sample_cuda_part(kernels::parse_grid_sample(p.constants), operands[0].type);
  return std::vector<CodeUnit>{{part.name, part.text, part.kernels, {kernels::axes_cuda_text, kernels::grid_sample_cuda_text}}};
}

}  // namespace

void grid_sample_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  const auto* plain = std::get_if<Plain>(&site.kernel);
  if (plain == nullptr || plain->kernel != "grid_sample") return;
  const kernels::GridSampleArgs args = kernels::parse_grid_sample(plain->constants);
  auto refuse = [&](std::string reason) { out.refusals.push_back({implementation, Obstacle::types, std::move(reason)}); };
  if (args.axes != 2) return refuse("images of two axes only");
  using Mode = kernels::GridSampleArgs::Mode;
  const bool few_channels = site.usual(site.operands[0].layout.dims[1]).value_or(INT64_MAX) <= kernels::sample::tuning::linear_channels;
  if (args.mode != Mode::cubic && !(args.mode == Mode::linear && few_channels))
    return refuse("a fused body reads one element, or four of many channels, as fast, and goes on with the result");
  if (site.operands[0].type == ir::DType::f64 || site.operands[1].type != ir::DType::f32) return refuse("places are float32, images float32 or a half type");
  offer_plain(site, {"grid_sample"}, implementation, out, code);
}

}  // namespace ingot::backend::cuda
