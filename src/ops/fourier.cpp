// Discrete Fourier transforms along the last axis, of real numbers and of pairs (re, im): what complex_numbers.py makes of torch's transforms.
//
// A short transform of known length is a product with the matrix of its roots of unity. A longer one of n1 * n2 elements is two small products with a multiplication by roots of unity between
// them (Cooley and Tukey). The matrices depend on no input, so prepare makes them once. Other lengths, and open ones, are the kernel's.
#include <cmath>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

constexpr int64_t max_length = 4096;  // of a transform by products
constexpr int64_t max_factor = 1024;  // rows of a matrix: what a length with a large prime factor would need takes more memory than it saves time
constexpr int64_t max_one_product = 64;  // above it two products take less arithmetic and round less, where the length has factors

struct Roots {
  Value re, im;
};

// The two factors that are nearest to one another, the smaller one first.
std::pair<int64_t, int64_t> factors(int64_t length) {
  auto small = static_cast<int64_t>(std::sqrt(static_cast<double>(length)));
  while (length % small != 0) --small;
  return {small, length / small};
}

bool is_by_products(const Dim& length) {
  const auto n = length.constant();
  return n && *n >= 1 && *n <= max_length && (*n <= max_one_product || factors(*n).second <= max_factor);
}

// scale * exp(sign * 2 pi i * row * column / length). Exponents are reduced modulo the length before they become angles, in double.
Roots roots(Graph& g, int64_t rows, int64_t columns, int64_t length, int sign, double scale, DType t) {
  const Value exponents = ir::map(Op::mod, {unsqueeze(iota(g, rows), 1) * iota(g, columns), Operand(length)});
  const Value angles = cast(exponents, DType::f64) * (sign * 2 * M_PI / static_cast<double>(length));
  return {cast(cos(angles) * scale, t), cast(sin(angles) * scale, t)};
}

// The product with a complex matrix, as one of real numbers: its real part and, unless `real`, its imaginary part.
std::vector<Value> product(const Value& re, const std::optional<Value>& im, const Roots& by, bool real = false) {
  const Dim columns = by.re.dim(1);
  Value x = re, matrix = by.re;
  if (!im) {
    matrix = concat({by.re, by.im}, 1);
  } else {
    x = concat({re, *im}, -1);
    matrix = concat({by.re, -by.im}, 0);
    if (!real) matrix = concat({matrix, concat({by.im, by.re}, 0)}, 1);
  }
  Dims dims = x.dims();
  dims.back() = matrix.dim(1);
  const Value made = reshape(matmul(reshape(x, {ir::product(Dims(x.dims().begin(), x.dims().end() - 1)), matrix.dim(0)}), matrix), dims);
  if (real) return {made};
  return {slice(made, -1, Dim(0), columns, 1), slice(made, -1, columns, columns * 2, 1)};
}

// The first `kept` elements of the transform, of elements that are followed by zeros up to `length`; only their real parts if `real`.
std::vector<Value> by_products(Value re, std::optional<Value> im, int64_t length, int64_t kept, int sign, double scale, bool real = false) {
  Graph& g = re.graph();
  const DType t = re.dtype();
  const int64_t given = re.dim(-1).value();
  const auto [n1, n2] = factors(length);
  if (length <= max_one_product || n1 == 1) return product(re, im, roots(g, given, kept, length, sign, scale, t), real);
  // Element n2 * a + b gives to element c + n1 * d: exp(ac / n1) * exp(bc / length) * exp(bd / n2).
  const int64_t rows = (given + n2 - 1) / n2, columns = (kept + n1 - 1) / n1;
  auto with_last = [](const Value& x, std::initializer_list<Dim> last) {
    Dims dims(x.dims().begin(), x.dims().end() - 1);
    dims.insert(dims.end(), last);
    return dims;
  };
  auto grid = [&, n2 = n2](Value x) {
    if (rows * n2 > given) {
      const Dims none(x.dims().size(), Dim(0));
      Dims after = none;
      after.back() = rows * n2 - given;
      x = pad(x, none, after, 0.0);
    }
    return transpose(reshape(x, with_last(x, {rows, n2})), -1, -2);
  };
  std::vector<Value> z = product(grid(re), im ? std::optional(grid(*im)) : im, roots(g, rows, n1, n1, sign, 1, t));
  const Roots by = roots(g, n2, n1, length, sign, 1, t);
  z = {z[0] * by.re - z[1] * by.im, z[0] * by.im + z[1] * by.re};
  z = product(transpose(z[0], -1, -2), transpose(z[1], -1, -2), roots(g, n2, columns, n2, sign, scale, t), real);
  for (Value& x : z) {
    const Dims dims = with_last(re, {columns * n1});
    x = slice(reshape(transpose(x, -1, -2), dims), -1, Dim(0), Dim(kept), 1);
  }
  return z;
}

// The factor of torch's normalisation for `count` elements: 0 none, 1 by the root of their number, 2 by their number.
double factor_of(int64_t normalization, int64_t count) {
  return normalization == 0 ? 1 : 1 / (normalization == 1 ? std::sqrt(static_cast<double>(count)) : static_cast<double>(count));
}

Value scaled(const Value& x, int64_t normalization, const Dim& count) {
  if (normalization == 0) return x;
  if (const auto n = count.constant()) return x * factor_of(normalization, *n);
  const Value n = cast(literal(x.graph(), count, DType::i64), DType::f64);
  return x * cast(1.0 / (normalization == 1 ? sqrt(n) : n), x.dtype());
}

void check(const Value& x, const Dim& length) {
  if (x.dtype() != DType::f32 && x.dtype() != DType::f64) fail(Code::unsupported, "a Fourier transform of {}", name_of(x.dtype()));
  if (x.rank() == 0) fail(Code::invalid_input, "a Fourier transform of a number without an axis");
  require(x.graph(), Dim(1), Check::less_equal, length, "a Fourier transform has elements");
}

// The factor that the matrices have, if the transform is by products.
std::optional<double> factor_in_matrix(const Dim& length, int64_t normalization, const Dim& count) {
  if (!is_by_products(length) || (normalization != 0 && !count.constant())) return std::nullopt;
  return factor_of(normalization, count.constant().value_or(1));
}

std::pair<Value, Value> fourier(const Value& re, const Value& im, bool forward, int64_t normalization, const Dim& count) {
  const Dim n = re.dim(-1);
  check(re, n);
  if (const auto factor = factor_in_matrix(n, normalization, count)) {
    const std::vector<Value> z = by_products(re, im, n.value(), n.value(), forward ? -1 : 1, *factor);
    return {z[0], z[1]};
  }
  const auto [first, second] = forward ? ir::fourier(re, im) : ir::fourier(im, re);
  return {scaled(forward ? first : second, normalization, count), scaled(forward ? second : first, normalization, count)};
}

std::pair<Value, Value> fourier_of_real(const Value& x, bool onesided, int64_t normalization, const Dim& count) {
  const Dim n = x.dim(-1), half = floordiv(n, 2) + 1;
  check(x, n);
  if (const auto factor = factor_in_matrix(n, normalization, count)) {
    const std::vector<Value> z = by_products(x, std::nullopt, n.value(), (onesided ? half : n).value(), -1, *factor);
    return {z[0], z[1]};
  }
  const auto [re, im] = ir::fourier_of_real(x);
  // The other half has the conjugates, in reverse.
  auto whole = [&](const Value& part, double sign) {
    const Value made = scaled(part, normalization, count);
    if (onesided) return made;
    AffineMap map{made.dims(), {}, std::nullopt};
    for (uint32_t d = 0; d < map.dims.size(); ++d) map.axes.push_back({0, {{d, 1}}});
    const Dim last = floordiv(n - 1, 2);
    map.dims.back() = last;
    map.axes.back() = {last, {{static_cast<uint32_t>(map.dims.size() - 1), -1}}};
    return concat({made, view(made, map) * sign}, -1);
  };
  return {whole(re, 1), whole(im, -1)};
}

Value fourier_to_real(Value re, Value im, const Dim& length, int64_t normalization, const Dim& count) {
  check(re, length);
  if (const auto factor = factor_in_matrix(length, normalization, count)) {
    const int64_t n = length.value(), half = n / 2 + 1;
    // The other half has the conjugates, so what has one counts twice. What has none is real.
    const Value place = iota(re.graph(), half), paired = (place > 0) & not_equal(place * 2, n);
    re = select(paired, re * 2, re);
    im = select(paired, im * 2, 0.0);
    return by_products(re, im, n, n, 1, *factor, true)[0];
  }
  return scaled(ir::fourier_to_real(re, im, length), normalization, count);
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
