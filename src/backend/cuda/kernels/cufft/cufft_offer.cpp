#include <algorithm>

#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/cufft/cufft.h"
#include "backend/cuda/kernels/cufft/run/cufft_args.h"
#include "backend/cuda/kernels/cufft/run/tuning.h"
#include "backend/cuda/kernels/fourier/fourier.h"
#include "backend/cuda/kernels/gemm/gemm.h"
#include "ir/fourier.h"

namespace ingot::backend::cuda {

namespace {

using kernels::CufftArgs;
using Kind = ir::FourierKind;

using namespace kernels::cufft_tuning;

// True if each element of y follows one of x: they are the parts of interleaved complex numbers.
bool is_after(const StridedLayout& x, const StridedLayout& y) { return x.strides == y.strides && y.offset == x.offset + ir::Dim(1); }

// True if all rows have one stride.
bool is_even(const StridedLayout& x) {
  for (size_t d = 0; d + 2 < x.dims.size(); ++d) {
    if (!is(x.dims[d], 1) && !is(x.dims[d + 1], 1) && !(x.strides[d] == x.strides[d + 1] * x.dims[d + 1])) return false;
  }
  return true;
}

CufftArgs args_of(const Site& site, const Plain& p) {
  CufftArgs out{fourier_args(site, p)};
  const kernels::FourierArgs& fourier = out.fourier;
  auto interleaved = [&](size_t first, bool swapped) { return is_after(site.operands[first + swapped].layout, site.operands[first + !swapped].layout); };
  if (fourier.kind == Kind::pair) out.inverse = interleaved(0, true) || (!interleaved(0, false) && interleaved(2, true));
  out.reads_interleaved = fourier.kind != Kind::of_real && interleaved(0, out.inverse);
  out.writes_interleaved = fourier.kind != Kind::to_real && interleaved(fourier.inputs(), out.inverse);
  return out;
}

// True if the own kernel takes less time.
bool is_too_short(const Site& site, const CufftArgs& args) {
  const Kind kind = args.fourier.kind;
  const int64_t length = site.usual((kind == Kind::to_real ? site.operands.back() : site.operands[0]).layout.dims.back()).value_or(INT64_MAX);
  const bool even = std::all_of(site.operands.begin(), site.operands.end(), [](const Operand& o) { return is_even(o.layout); }),
             planar = kind == Kind::pair && !args.reads_interleaved && !args.writes_interleaved;
  return length < (!even                   ? (args.fourier.columns ? shortest_columns : shortest_uneven)
                   : planar                ? shortest_planar
                   : kind == Kind::to_real ? shortest_half
                                           : 0) &&
         ir::radices_of(length);
}

}  // namespace

EmittedStep cufft_step(const Site& site, const Plain& p) {
  const CufftArgs args = args_of(site, p);
  const ir::DType type = site.operands[0].type;
  std::vector<CodeUnit> code = fourier_code(args.fourier, type);
  const kernels::CudaPart ends = kernels::cufft_cuda_part(args.fourier, type);
  code.push_back({ends.name, ends.text, ends.kernels, {kernels::axes_cuda_text, kernels::fourier_cuda_text, kernels::cufft_cuda_text}});
  return {"cufft", serialise(args), {}, std::move(code)};
}

// Preferred to ingot's own kernel, whose offer comes after it. Several axes have no other offer: if the sketch is refused, compile makes transforms along one axis of them.
void cufft_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  constexpr std::string_view name = "cufft";
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || p->kernel != "fourier") return;
  if (is_sketch(site)) return out.offers.push_back({.implementation = name, .wishes = {interleaved_parts}});
  if (const CufftArgs args = args_of(site, *p); args.fourier.axes == 1 && is_too_short(site, args)) {
    out.refusals.push_back({name, Obstacle::cost, "it needs copies, which take longer than so short a transform"});
    return;
  }
  out.offers.push_back({.implementation = name, .emit = [p, &site] { return cufft_step(site, *p); }});
}

}  // namespace ingot::backend::cuda
