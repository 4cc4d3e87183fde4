// Discrete Fourier transforms along the last axis, of real numbers and of pairs (re, im): what complex_numbers.py makes of torch's transforms.
#include <cmath>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

// torch's normalisation for `count` elements: 0 none, 1 by the root of their number, 2 by their number.
Value scaled(const Value& x, int64_t normalization, const Dim& count) {
  if (normalization == 0) return x;
  if (const auto n = count.constant()) return x * (1 / (normalization == 1 ? std::sqrt(static_cast<double>(*n)) : static_cast<double>(*n)));
  const Value n = cast(literal(x.graph(), count, DType::i64), DType::f64);
  return x * cast(1.0 / (normalization == 1 ? sqrt(n) : n), x.dtype());
}

// Halves, which torch has on GPUs, are computed in float32.
Value widened(const Value& x) { return cast(x, compute_type(x.dtype())); }

void check(const Value& x, const Dim& length) {
  if (!is_float(x.dtype())) fail(Code::unsupported, "a Fourier transform of {}", name_of(x.dtype()));
  if (x.rank() == 0) fail(Code::invalid_input, "a Fourier transform of a number without an axis");
  require(x.graph(), Dim(1), Check::less_equal, length, "a Fourier transform has elements");
}

// The inverse transform is the transform with the parts swapped, before and after.
std::pair<Value, Value> fourier(const Value& re, const Value& im, bool forward, int64_t normalization, const Dim& count) {
  check(re, re.dim(-1));
  const auto [first, second] = forward ? ir::fourier(widened(re), widened(im)) : ir::fourier(widened(im), widened(re));
  auto made = [&](const Value& part) { return cast(scaled(part, normalization, count), re.dtype()); };
  return {made(forward ? first : second), made(forward ? second : first)};
}

std::pair<Value, Value> fourier_of_real(const Value& x, bool onesided, int64_t normalization, const Dim& count) {
  check(x, x.dim(-1));
  const auto [re, im] = ir::fourier_of_real(widened(x));
  // The other half has the conjugates, in reverse.
  auto whole = [&](const Value& part, double sign) {
    const Value made = cast(scaled(part, normalization, count), x.dtype());
    if (onesided) return made;
    AffineMap map{made.dims(), {}, std::nullopt};
    for (uint32_t d = 0; d < map.dims.size(); ++d) map.axes.push_back({0, {{d, 1}}});
    const Dim last = floordiv(x.dim(-1) - 1, 2);
    map.dims.back() = last;
    map.axes.back() = {last, {{static_cast<uint32_t>(map.dims.size() - 1), -1}}};
    return concat({made, view(made, map) * sign}, -1);
  };
  return {whole(re, 1), whole(im, -1)};
}

Value fourier_to_real(const Value& re, const Value& im, const Dim& length, int64_t normalization, const Dim& count) {
  check(re, length);
  return cast(scaled(ir::fourier_to_real(widened(re), widened(im), length), normalization, count), re.dtype());
}

const Definition fourier_rows[] = {
    {"ingot::fourier(Tensor re, Tensor im, bool forward, int normalization, SymInt count)", Types::same,
     [](Value re, Value im, bool forward, int64_t normalization, Dim count) { return fourier(re, im, forward, normalization, count); }},
    {"ingot::fourier_of_real(Tensor self, bool onesided, int normalization, SymInt count)",
     [](Value x, bool onesided, int64_t normalization, Dim count) { return fourier_of_real(x, onesided, normalization, count); }},
    {"ingot::fourier_to_real(Tensor re, Tensor im, SymInt length, int normalization, SymInt count)", Types::same,
     [](Value re, Value im, Dim length, int64_t normalization, Dim count) { return fourier_to_real(re, im, length, normalization, count); }},
};

}  // namespace

std::span<const Definition> fourier_definitions() { return fourier_rows; }

}  // namespace ingot::ops
