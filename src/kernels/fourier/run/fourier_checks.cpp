#include "kernels/fourier/run/fourier_checks.h"

#include <algorithm>

#include "base/error.h"

namespace ingot::kernels {

std::shared_ptr<const void> load_fourier(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<FourierArgs>(parse_fourier(constants));
  if (operands != args->operands() || sizes != 0) fail(Code::format, "a fourier step has {} operands and {} sizes", operands, sizes);
  return args;
}

std::shared_ptr<const void> load_fourier_of_one_axis(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  if (const int64_t axes = parse_fourier(constants).axes; axes != 1) fail(Code::format, "a fourier step is along {} axes, for a kernel of one", axes);
  return load_fourier(constants, operands, sizes);
}

int64_t check_fourier(const Call& call) {
  const auto& args = *static_cast<const FourierArgs*>(call.constants);
  const TensorRef &first = call.operands[0], &last = call.operands.back();
  bool fits = first.rank >= args.axes && first.rank <= max_rank && (first.dtype == ir::DType::f32 || first.dtype == ir::DType::f64);
  for (const TensorRef& t : call.operands) fits = fits && t.rank == first.rank && t.dtype == first.dtype && std::equal(t.dims, t.dims + t.rank - 1, first.dims);
  if (!fits) fail(Code::format, "the operands of a fourier step do not fit");
  auto elements = [](const TensorRef& t) { return t.dims[t.rank - 1]; };
  const int64_t n = elements(args.kind == ir::FourierKind::to_real ? last : first);
  for (int64_t i = 1; i <= args.axes; ++i) {
    if (const int64_t length = i == 1 ? n : first.dims[first.rank - i]; length < 1) fail(Code::invalid_input, "a Fourier transform has {} elements", length);
  }
  const bool whole = args.kind == ir::FourierKind::pair;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const bool real = args.kind == ir::FourierKind::of_real ? i == 0 : args.kind == ir::FourierKind::to_real && i == 2;
    if (elements(call.operands[i]) != (whole || real ? n : n / 2 + 1)) fail(Code::format, "the operands of a fourier step do not fit");
  }
  return n;
}

int64_t count_of_transforms(const TensorRef& t) { return numel(t, 1); }

}  // namespace ingot::kernels
