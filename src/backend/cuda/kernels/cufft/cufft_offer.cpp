#include <algorithm>

#include "backend/cuda/compile/offers.h"
#include "backend/cuda/kernels/cufft/cufft.h"
#include "backend/cuda/kernels/cufft/run/cufft_args.h"
#include "backend/cuda/kernels/fourier/fourier.h"
#include "backend/cuda/kernels/gemm.h"
#include "ir/fourier.h"

namespace ingot::backend::cuda {

namespace {

using kernels::CufftArgs;
using Kind = ir::FourierKind;

// The shortest transforms for which cuFFT is the faster one although a copy goes before or after it. H200, float32, 1 to 64000 rows (cufft.speed of test_backend_cuda), geometric means of the time of ingot's own
// kernel over cuFFT's with its copies: parts that lie apart at both ends 1.0 to 3.6 from this length on, except 0.93 for 400, and 0.85 to 1.06 below; halves, which are always copied as cuFFT writes over them, 1.05
// to 4 and 0.85 to 0.96; rows that are not equally far apart 0.92 to 3.3, and 0.6 to 1.2. Without a copy it is 1.8 to 7. A length with a large prime factor is at least 1.4 in each case.
constexpr int64_t shortest_apart = 128, shortest_half = 8, shortest_uneven = 512;

bool is_after(const StridedLayout& x, const StridedLayout& y) { return x.strides == y.strides && y.offset == x.offset + ir::Dim(1); }

// Rows that are equally far apart: their axes are one.
bool is_even(const StridedLayout& x) {
  for (size_t d = 0; d + 2 < x.dims.size(); ++d) {
    if (!is(x.dims[d], 1) && !is(x.dims[d + 1], 1) && !(x.strides[d] == x.strides[d + 1] * x.dims[d + 1])) return false;
  }
  return true;
}

CufftArgs args_of(const kernels::FourierArgs& fourier, const std::vector<StridedLayout>& operands) {
  CufftArgs out{fourier};
  auto beside = [&](size_t first, bool turned) { return is_after(operands[first + turned], operands[first + !turned]); };
  if (fourier.kind == Kind::pair) out.inverse = beside(0, true) || (!beside(0, false) && beside(2, true));
  out.read_beside = fourier.kind != Kind::of_real && beside(0, out.inverse);
  out.written_beside = fourier.kind != Kind::to_real && beside(fourier.inputs(), out.inverse);
  return out;
}

}  // namespace

EmittedStep cufft_step(const Plain& p, const std::vector<StridedLayout>& operands) {
  const CufftArgs args = args_of(kernels::parse_fourier(p.constants), operands);
  const kernels::CudaPart own = kernels::fourier_cuda_part(args.fourier, p.types[0]), ends = kernels::cufft_cuda_part(args.fourier, p.types[0]);
  return {"cufft",
          serialise(args),
          {},
          {{own.name, own.text, own.kernels, {kernels::axes_cuda_text, kernels::fourier_cuda_text}},
           {ends.name, ends.text, ends.kernels, {kernels::axes_cuda_text, kernels::fourier_cuda_text, kernels::cufft_cuda_text}}}};
}

// Preferred to ingot's own kernel, whose offer comes after it.
void cufft_offers(const Site& site, const Target&, const Settings&, Offers& out) {
  constexpr std::string_view name = "cufft";
  const auto* p = std::get_if<Plain>(&site.kernel);
  if (p == nullptr || p->kernel != "fourier") return;
  const CufftArgs args = args_of(kernels::parse_fourier(p->constants), site.operands);
  const Kind kind = args.fourier.kind;
  const int64_t length = site.usual((kind == Kind::to_real ? site.operands.back() : site.operands[0]).dims.back()).value_or(INT64_MAX);
  const bool even = std::all_of(site.operands.begin(), site.operands.end(), is_even), apart = kind == Kind::pair && !args.read_beside && !args.written_beside;
  if (length < (!even ? shortest_uneven : apart ? shortest_apart : kind == Kind::to_real ? shortest_half : 0) && ir::radices_of(length)) {
    out.refusals.push_back({name, Obstacle::cost, "it needs copies, which take longer than so short a transform"});
    return;
  }
  out.offers.push_back({.implementation = name, .emit = [p, &site] { return cufft_step(*p, site.operands); }});
}

}  // namespace ingot::backend::cuda
