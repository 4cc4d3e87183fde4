#include <algorithm>

#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/fourier/fourier.h"

namespace ingot::backend::cuda {

namespace {

// True if neighbouring transforms are closer together than the elements of one, as the columns of an image do.
bool is_column(const Site& site, const StridedLayout& x) {
  size_t d = x.dims.size() - 1;
  while (d > 0 && x.dims[d - 1] == ir::Dim(1)) --d;
  if (d == 0) return false;
  const auto outer = site.usual(x.strides[d - 1]), step = site.usual(x.strides.back());
  return outer && step && *outer < *step;
}

}  // namespace

kernels::FourierArgs fourier_args(const Site& site, const Plain& p) {
  kernels::FourierArgs out = kernels::parse_fourier(p.constants);
  out.columns = std::all_of(site.operands.begin(), site.operands.end(), [&](const Operand& o) { return is_column(site, o.layout); });
  return out;
}

std::vector<CodeUnit> fourier_code(const kernels::FourierArgs& args, ir::DType type) {
  std::vector<kernels::FourierArgs> kinds{args};
  if (args.axes > 1 && args.kind != ir::FourierKind::pair) kinds.emplace_back();
  std::vector<CodeUnit> out;
  for (const kernels::FourierArgs& each : kinds) {
    kernels::CudaPart part = kernels::fourier_cuda_part(each, type);
    out.push_back({part.name, part.text, part.kernels, {kernels::axes_cuda_text, kernels::fourier_cuda_text}});
  }
  return out;
}

void fourier_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  constexpr std::string_view name = "transforms in shared memory";
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || p->kernel != "fourier" || refuse_several_axes(site, name, out)) return;
  out.offers.push_back({.implementation = name, .emit = [p, &site] {
                          const kernels::FourierArgs args = fourier_args(site, *p);
                          return EmittedStep{"fourier", serialise(args), {}, fourier_code(args, site.operands[0].type)};
                        }});
}

}  // namespace ingot::backend::cuda
