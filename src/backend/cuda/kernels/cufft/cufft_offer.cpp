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

// True if y's elements lie one behind x's: both are parts of complex numbers.
bool is_after(const StridedLayout& x, const StridedLayout& y) { return x.strides == y.strides && y.offset == x.offset + ir::Dim(1); }

// True if neighbouring transforms lie closer together than the elements of one.
bool is_column(const StridedLayout& x) {
  const size_t rank = x.dims.size();
  if (rank < 2) return false;
  const auto apart = x.strides[rank - 2].constant(), step = x.strides[rank - 1].constant();
  return apart && step && *apart < *step;
}

// True if rows are equally far apart.
bool is_even(const StridedLayout& x) {
  for (size_t d = 0; d + 2 < x.dims.size(); ++d) {
    if (!is(x.dims[d], 1) && !is(x.dims[d + 1], 1) && !(x.strides[d] == x.strides[d + 1] * x.dims[d + 1])) return false;
  }
  return true;
}

CufftArgs args_of(const kernels::FourierArgs& fourier, std::span<const Operand> operands) {
  CufftArgs out{fourier};
  auto beside = [&](size_t first, bool turned) { return is_after(operands[first + turned].layout, operands[first + !turned].layout); };
  if (fourier.kind == Kind::pair) out.inverse = beside(0, true) || (!beside(0, false) && beside(2, true));
  out.read_beside = fourier.kind != Kind::of_real && beside(0, out.inverse);
  out.written_beside = fourier.kind != Kind::to_real && beside(fourier.inputs(), out.inverse);
  return out;
}

}  // namespace

EmittedStep cufft_step(const Plain& p, std::span<const Operand> operands) {
  const CufftArgs args = args_of(kernels::parse_fourier(p.constants), operands);
  const kernels::CudaPart own = kernels::fourier_cuda_part(args.fourier, operands[0].type), ends = kernels::cufft_cuda_part(args.fourier, operands[0].type);
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
  if (is_sketch(site)) return out.offers.push_back({.implementation = name, .wishes = {interleaved_parts}});
  const CufftArgs args = args_of(kernels::parse_fourier(p->constants), site.operands);
  const Kind kind = args.fourier.kind;
  const int64_t length = site.usual((kind == Kind::to_real ? site.operands.back() : site.operands[0]).layout.dims.back()).value_or(INT64_MAX);
  const bool even = std::all_of(site.operands.begin(), site.operands.end(), [](const Operand& o) { return is_even(o.layout); }),
             apart = kind == Kind::pair && !args.read_beside && !args.written_beside;
  const bool columns = std::all_of(site.operands.begin(), site.operands.end(), [](const Operand& o) { return is_column(o.layout); });
  if (length < (!even ? (columns ? shortest_columns : shortest_uneven) : apart ? shortest_apart : kind == Kind::to_real ? shortest_half : 0) && ir::radices_of(length)) {
    out.refusals.push_back({name, Obstacle::cost, "it needs copies, which take longer than so short a transform"});
    return;
  }
  out.offers.push_back({.implementation = name, .emit = [p, &site] { return cufft_step(*p, site.operands); }});
}

}  // namespace ingot::backend::cuda
