// Operators on complex numbers. What moves or adds elements acts on each part by the definition for real numbers; products and functions are written out here.
#include "ops/complex.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/binding.h"
#include "ops/bits.h"

namespace ingot::ops {

using namespace ir;

namespace {

constexpr std::string_view pair_target = "complex";

// Names of operators that act on each part alone.
constexpr std::string_view on_each_part =
    " view view_copy _unsafe_view reshape _reshape_copy view_as reshape_as flatten unflatten permute permute_copy transpose transpose_copy swapaxes swapdims t t_copy "
    "numpy_T mT moveaxis movedim expand expand_copy expand_as broadcast_to unsqueeze unsqueeze_copy squeeze squeeze_copy slice slice_copy select select_copy narrow "
    "narrow_copy split split_with_sizes split_with_sizes_copy unsafe_split_with_sizes unsafe_split split_copy chunk unsafe_chunk unbind unbind_copy cat concat "
    "concatenate stack _stack diff flip roll repeat tile repeat_interleave block_diag broadcast_tensors meshgrid rot90 fliplr flipud hstack dstack column_stack "
    "vstack row_stack trace diagonal diagonal_copy linalg_diagonal unfold unfold_copy as_strided as_strided_copy unfold_backward constant_pad_nd pad reflection_pad1d "
    "reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d clone contiguous alias alias_copy detach detach_copy lift_fresh "
    "lift_fresh_copy _to_copy to type_as slice_scatter select_scatter diagonal_scatter diag_embed fill zero copy embedding index _unsafe_index index_select gather "
    "take_along_dim take where masked_fill index_put scatter scatter_add index_add index_copy index_fill masked_scatter tril triu zeros full empty empty_like "
    "zeros_like full_like new_zeros new_full new_empty scalar_tensor add sub subtract rsub neg negative positive sum mean cumsum dropout ";
// Operands of these that are not numbers of the result: both parts read them as they are.
constexpr std::string_view shared_operands = " indices index mask condition repeats ";
// Factors of the result's parts, of which neither is an imaginary one.
constexpr std::string_view factors = " alpha beta ";
// Names of operators that are linear in each of their first two operands.
constexpr std::string_view linear_in_two = " mm bmm matmul mv dot inner outer ger tensordot einsum ";
// Names of operators that read only magnitudes, of those that ask whether numbers are 0, and of those whose first result is the sum of their results for the two parts, or of the squares of these.
constexpr std::string_view of_magnitudes = " linalg_vector_norm linalg_norm linalg_matrix_norm norm ";
constexpr std::string_view of_truth = " any all logical_not logical_and logical_or logical_xor count_nonzero nonzero argwhere ";
constexpr std::string_view sums_of_parts = " var var_mean ";
constexpr std::string_view lengths_of_parts = " std std_mean ";

bool is_listed(std::string_view name, std::string_view list) { return list.find(fmt::format(" {} ", name)) != std::string_view::npos; }

Value zeros_of(const Value& x) { return full(x.graph(), x.dims(), 0, x.dtype()); }

Complex operator-(const Complex& z) {
  if (!z.im) return {-z.re, std::nullopt};
  return {-z.re, -*z.im};
}

Complex operator+(const Complex& a, const Complex& b) {
  if (!a.im || !b.im) return {a.re + b.re, a.im ? a.im : b.im};
  return {a.re + b.re, *a.im + *b.im};
}

// A real factor is one for each part.
Complex operator*(const Complex& a, const Complex& b) {
  if (!a.im && !b.im) return {a.re * b.re, std::nullopt};
  if (!b.im) return {a.re * b.re, *a.im * b.re};
  if (!a.im) return {a.re * b.re, a.re * *b.im};
  return {a.re * b.re - *a.im * *b.im, a.re * *b.im + *a.im * b.re};
}

Value magnitude(const Complex& z) { return z.im ? ir::map(Op::hypot, {z.re, *z.im}) : abs(z.re); }

// A quotient whose parts neither overflow nor vanish on the way, with infinities and NaNs where torch has them. A real divisor divides each part.
Complex operator/(const Complex& a, const Complex& b) {
  if (!b.im) return a.im ? Complex{a.re / b.re, *a.im / b.re} : Complex{a.re / b.re, std::nullopt};
  const Value length = abs(b.re), wide = length >= abs(*b.im), none = equal(b.re, 0) & equal(*b.im, 0);
  const Value larger = select(wide, b.re, *b.im), smaller = select(wide, *b.im, b.re), ratio = smaller / larger, scale = 1 / (larger + smaller * ratio);
  const Value x = a.re, y = a.imaginary(), re = select(wide, x, y) + select(wide, y, x) * ratio, im = select(wide, y, -x) + select(wide, -x, y) * ratio;
  return {select(none, x / length, re * scale), select(none, y / length, im * scale)};
}

Value phase(const Complex& z) { return float_map(Op::atan2, {z.imaginary(), z.re}); }
Complex times_i(const Complex& z) { return {-z.imaginary(), z.re}; }  // i z
Complex over_i(const Complex& z) { return {z.imaginary(), -z.re}; }  // -i z
Complex polar(const Value& length, const Value& angle) { return {length * cos(angle), length * sin(angle)}; }

// An infinite length times 0 or no number is what C says of exp: exp(inf + 0i) = inf + 0i, exp(-inf + nan i) = 0.
Complex exponential(const Complex& z) {
  const Value length = exp(z.re), angle = z.imaginary(), turns = ir::map(Op::is_nan, {angle - angle});
  return {select(turns & ir::map(Op::is_inf, {z.re}), length, length * cos(angle)), select(equal(angle, 0), angle, select(turns & equal(length, 0), 0, length * sin(angle)))};
}
Complex logarithm(const Complex& z) { return {log(magnitude(z)), phase(z)}; }
Complex scaled(const Complex& z, double by) { return {z.re * by, z.imaginary() * by}; }
Complex sine_hyperbolic(const Complex& z) { return {sinh(z.re) * cos(z.imaginary()), cosh(z.re) * sin(z.imaginary())}; }
Complex cosine_hyperbolic(const Complex& z) { return {cosh(z.re) * cos(z.imaginary()), sinh(z.re) * sin(z.imaginary())}; }

// By tangents of the parts, which do not overflow as sinh and cosh do.
Complex tangent_hyperbolic(const Complex& z) {
  const Value a = tanh(z.re), b = tan(z.imaginary()), below = square(a) * square(b) + 1;
  return {a * (square(b) + 1) / below, b * (1 - square(a)) / below};
}

// The larger part comes from the magnitude, the other from it: nothing cancels.
Complex root(const Complex& z) {
  const Value x = z.re, y = z.imaginary(), larger = sqrt((magnitude(z) + abs(x)) * 0.5), smaller = abs(y) / (select(equal(larger, 0), 1, larger) * 2.0);
  const Value right = x >= 0;
  return {select(right, larger, smaller), ir::map(Op::copysign, {select(right, smaller, larger), y})};
}

// Small whole powers are products, as in eager. Others have a logarithm, which a base of 0 does not have.
Complex complex_power(const Complex& base, const Complex& exponent, std::optional<double> number) {
  constexpr int max_products = 8;
  if (number == 0.5) return root(base);
  if (number && *number >= 1 && *number <= max_products && *number == std::floor(*number)) {
    Complex made = base;
    for (int i = 1; i < static_cast<int>(*number); ++i) made = made * base;
    return made;
  }
  const Complex made = exponential(exponent * logarithm(base));
  const Value none = equal(base.re, 0) & equal(base.imaginary(), 0), vanishes = none & (exponent.re > 0), stays = none & equal(exponent.re, 0) & equal(exponent.imaginary(), 0);
  return {select(stays, 1.0, select(vanishes, 0.0, made.re)), select(stays | vanishes, 0.0, made.imaginary())};
}

Complex sigmoid(const Complex& z) {
  const Complex one{literal(z.re.graph(), 1, z.re.dtype()), std::nullopt};
  return one / (one + exponential(-z));
}

// It is odd. Of a number whose real part is not negative nothing cancels.
Complex inverse_sine_hyperbolic(const Complex& z) {
  const Value side = select(z.re < 0, -1.0, 1.0);
  const Complex x{z.re * side, z.imaginary() * side}, one{literal(z.re.graph(), 1, z.re.dtype()), std::nullopt};
  const Complex made = logarithm(x + root(x * x + one));
  return {made.re * side, *made.im * side};
}

Complex inverse_cosine_hyperbolic(const Complex& z) {
  const Complex one{literal(z.re.graph(), 1, z.re.dtype()), std::nullopt};
  return logarithm(z + root(z + one) * root(z + -one));
}

Complex inverse_tangent_hyperbolic(const Complex& z) {
  const Complex one{literal(z.re.graph(), 1, z.re.dtype()), std::nullopt};
  return scaled(logarithm((one + z) / (one + -z)), 0.5);
}

Complex of_length_one(const Complex& z) {
  const Value length = magnitude(z), none = equal(length, 0), by = select(none, 1, length);
  return {select(none, 0, z.re / by), select(none, 0, z.imaginary() / by)};
}

Complex product(const Complex& a, const Complex& b) {
  auto part = [&](const Value& x, const Value& y) { return matmul(x, y); };
  if (!a.im || !b.im) return {part(a.re, b.re), a.im ? part(*a.im, b.re) : part(a.re, b.imaginary())};
  return {part(a.re, b.re) - part(*a.im, *b.im), part(a.re, *b.im) + part(*a.im, b.re)};
}

// The operator of each part.
template <class F>
Complex each(const Complex& z, F f) {
  return {f(z.re), f(z.imaginary())};
}

int64_t known_length(const Complex& z, Axis axis) {
  if (!z.re.dim(axis).is_constant()) fail(Code::unsupported, "products of complex numbers along an axis of open size");
  return z.re.dim(axis).value();
}

Complex between(const Complex& z, Axis axis, int64_t start, int64_t end) {
  return each(z, [&](const Value& x) { return slice(x, axis, Dim(start), Dim(end), 1); });
}
Complex joined_along(Axis axis, const Complex& a, const Complex& b) { return {concat({a.re, b.re}, axis), concat({a.imaginary(), b.imaginary()}, axis)}; }

Complex cast_to(const Complex& z, std::optional<DType> t) {
  if (!t) return z;
  if (!is_complex(*t)) fail(Code::unsupported, "products of complex numbers as {}", torch_name_of(*t));
  return each(z, [&](const Value& x) { return cast(x, part_type(*t)); });
}

// The product of all numbers along an axis: of halves, until one is left.
Complex multiplied(Complex z, Axis axis, bool keepdim) {
  axis = z.re.axis(axis);
  int64_t left = known_length(z, axis);
  if (left == 0) {
    Dims dims = z.re.dims();
    dims[static_cast<size_t>(axis)] = 1;
    const Value one = full(z.re.graph(), dims, 1, z.re.dtype());
    z = {one, zeros_of(one)};
  }
  while (left > 1) {
    const int64_t half = left / 2;
    const Complex made = between(z, axis, 0, half) * between(z, axis, half, 2 * half);
    z = left % 2 == 0 ? made : joined_along(axis, made, between(z, axis, left - 1, left));
    left -= half;
  }
  return keepdim ? z : each(z, [&](const Value& x) { return squeeze(x, axis); });
}

// The products of all numbers up to each: times the number 1, 2, 4, .. places before.
Complex multiplied_up(Complex z, Axis axis) {
  if (z.re.rank() == 0) return z;
  axis = z.re.axis(axis);
  const int64_t length = known_length(z, axis);
  for (int64_t step = 1; step < length; step *= 2) {
    z = joined_along(axis, between(z, axis, 0, step), between(z, axis, step, length) * between(z, axis, 0, length - step));
  }
  return z;
}

// Ones on the diagonal.
Complex unit_matrix(Graph& g, const Dim& rows, const Dim& columns, std::optional<DType> t) {
  const Value ones = cast(equal(ir::index(g, {rows, columns}, 0), ir::index(g, {rows, columns}, 1)), part_type(t.value_or(DType::c64)));
  return {ones, zeros_of(ones)};
}

Complex transposed(const Complex& z) { return z.re.rank() < 2 ? z : Complex{transpose(z.re, -2, -1), transpose(z.imaginary(), -2, -1)}; }

// beta x + alpha a b
Complex added(const Complex& x, const Complex& a, const Complex& b, const Complex& beta, const Complex& alpha) { return beta * x + alpha * product(a, b); }

// view(dtype), of real numbers as complex ones and back too.
Complex of_bytes(const Complex& z, DType to) {
  Value x = z.re;
  if (z.im) {
    if (x.rank() == 0) fail(Code::invalid_input, "view of a 0-d complex number as {}, whose size is another", torch_name_of(to));
    x = flatten(interleaved(joined(z)), -2, -1);
  }
  x = of_same_bytes(x, is_complex(to) ? part_type(to) : to);
  if (!is_complex(to)) return {x, std::nullopt};
  Dims dims = x.dims();
  require(x.graph(), mod(dims.back(), 2), ir::Check::equal, 0, "the last axis has whole complex numbers");
  dims.back() = floordiv(dims.back(), 2);
  dims.push_back(2);
  return parts(of_interleaved(reshape(x, dims)));
}

const Definition complex_rows[] = {
    {"{view.dtype,view_copy.dtype}(Tensor self, ScalarType dtype)", [](Complex z, DType to) { return of_bytes(z, to); }},
    {"complex(Tensor real, Tensor imag)", Types::same, [](Value re, Value im) { return Complex{re, im}; }},
    {"polar(Tensor abs, Tensor angle)", Types::same, [](Value length, Value angle) { return polar(length, angle); }},
    {"{view_as_complex,view_as_complex_copy}(Tensor self)", [](Value x) { return of_interleaved(x); }},
    {"{view_as_real,view_as_real_copy}(Tensor self)", [](Complex z) { return interleaved(joined(z)); }},
    {"real(Tensor self)", [](Complex z) { return z.re; }},
    {"imag(Tensor self)", [](Complex z) { return z.imaginary(); }},
    {"{conj,_conj,_conj_copy,conj_physical,_conj_physical}(Tensor self)", [](Complex z) { return conjugate(z); }},
    {"{resolve_conj,resolve_neg}(Tensor self)", [](Complex z) { return z; }},
    {"{_neg_view,_neg_view_copy}(Tensor self)", [](Complex z) { return -z; }},
    {"{mH,adjoint}(Tensor self)", [](Complex z) { return conjugate(transposed(z)); }},
    {"{abs,absolute}(Tensor self)", [](Complex z) { return magnitude(z); }},
    {"angle(Tensor self)",
     [](Complex z) {
       if (z.im) return phase(z);
       const Value x = to_float(z.re);
       return select(ir::map(Op::is_nan, {x}), x, select(x < 0, M_PI, 0.0));
     }},
    {"sgn(Tensor self)", [](Complex z) { return of_length_one(z); }},
    {"mul.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::each, [](Complex a, Complex b) { return a * b; }},
    {"multiply.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::each, [](Complex a, Complex b) { return a * b; }},
    {"div.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::each, [](Complex a, Complex b) { return a / b; }},
    {"divide.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::each, [](Complex a, Complex b) { return a / b; }},
    {"true_divide.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::each, [](Complex a, Complex b) { return a / b; }},
    {"reciprocal(Tensor self)", [](Complex z) { return Complex{literal(z.re.graph(), 1, z.re.dtype()), std::nullopt} / z; }},
    {"square(Tensor self)", [](Complex z) { return z * z; }},
    {"pow.Tensor_Scalar(Tensor self, Scalar exponent)",
     [](Complex z, Complex e) {
       const Node& n = e.re.graph().producer(e.re.id());
       const bool known = !e.im && n.op == Op::literal;
       return complex_power(z, e, known ? std::optional(n.attributes.scalar("value").to_double()) : std::nullopt);
     }},
    {"pow.{Tensor_Tensor,Scalar}({Tensor,Scalar} self, Tensor exponent)", Types::each, [](Complex z, Complex e) { return complex_power(z, e, std::nullopt); }},
    {"exp(Tensor self)", [](Complex z) { return exponential(z); }},
    {"exp2(Tensor self)", [](Complex z) { return exponential(scaled(z, M_LN2)); }},
    {"log(Tensor self)", [](Complex z) { return logarithm(z); }},
    {"log2(Tensor self)", [](Complex z) { return scaled(logarithm(z), 1 / M_LN2); }},
    {"expm1(Tensor self)",
     [](Complex z) {
       const Value half = sin(z.imaginary() * 0.5);
       return Complex{expm1(z.re) * cos(z.imaginary()) - half * half * 2.0, exp(z.re) * sin(z.imaginary())};
     }},
    {"log1p(Tensor self)", [](Complex z) { return Complex{log1p(z.re * (z.re + 2) + square(z.imaginary())) * 0.5, float_map(Op::atan2, {z.imaginary(), z.re + 1})}; }},
    {"sigmoid(Tensor self)", [](Complex z) { return sigmoid(z); }},
    {"silu(Tensor self)", [](Complex z) { return z * sigmoid(z); }},
    {"asinh(Tensor self)", [](Complex z) { return inverse_sine_hyperbolic(z); }},
    {"acosh(Tensor self)", [](Complex z) { return inverse_cosine_hyperbolic(z); }},
    {"atanh(Tensor self)", [](Complex z) { return inverse_tangent_hyperbolic(z); }},
    {"asin(Tensor self)", [](Complex z) { return over_i(inverse_sine_hyperbolic(times_i(z))); }},
    {"acos(Tensor self)",
     [](Complex z) {
       const Complex made = over_i(inverse_sine_hyperbolic(times_i(z)));
       return Complex{M_PI_2 - made.re, -*made.im};
     }},
    {"atan(Tensor self)", [](Complex z) { return over_i(inverse_tangent_hyperbolic(times_i(z))); }},
    {"log10(Tensor self)", [](Complex z) { return scaled(logarithm(z), 1 / M_LN10); }},
    {"sqrt(Tensor self)", [](Complex z) { return root(z); }},
    {"rsqrt(Tensor self)", [](Complex z) { return Complex{literal(z.re.graph(), 1, z.re.dtype()), std::nullopt} / root(z); }},
    {"sinh(Tensor self)", [](Complex z) { return sine_hyperbolic(z); }},
    {"cosh(Tensor self)", [](Complex z) { return cosine_hyperbolic(z); }},
    {"tanh(Tensor self)", [](Complex z) { return tangent_hyperbolic(z); }},
    {"sin(Tensor self)", [](Complex z) { return over_i(sine_hyperbolic(times_i(z))); }},
    {"cos(Tensor self)", [](Complex z) { return cosine_hyperbolic(times_i(z)); }},
    {"tan(Tensor self)", [](Complex z) { return over_i(tangent_hyperbolic(times_i(z))); }},
    {"eq.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::each, [](Complex a, Complex b) { return equal(a.re, b.re) & equal(a.imaginary(), b.imaginary()); }},
    {"ne.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::each, [](Complex a, Complex b) { return not_equal(a.re, b.re) | not_equal(a.imaginary(), b.imaginary()); }},
    {"isnan(Tensor self)", [](Complex z) { return ir::map(Op::is_nan, {z.re}) | ir::map(Op::is_nan, {z.imaginary()}); }},
    {"isinf(Tensor self)", [](Complex z) { return ir::map(Op::is_inf, {z.re}) | ir::map(Op::is_inf, {z.imaginary()}); }},
    {"isfinite(Tensor self)",
     [](Complex z) {
       auto ends = [](const Value& x) { return ir::map(Op::is_nan, {x}) | ir::map(Op::is_inf, {x}); };
       return logical_not(ends(z.re) | ends(z.imaginary()));
     }},
    {"ones(SymInt[] size, *, ScalarType? dtype=None)",
     [](Graph& g, Dims d, std::optional<DType> t) {
       const Value one = full(g, d, 1, part_type(t.value_or(DType::c64)));
       return Complex{one, zeros_of(one)};
     }},
    {"ones_like(Tensor self, *, ScalarType? dtype=None)",
     [](Complex z, std::optional<DType> t) {
       const bool real = t && !is_complex(*t);
       const Value one = full(z.re.graph(), z.re.dims(), 1, real ? *t : t ? part_type(*t) : z.re.dtype());
       return real ? Complex{one, std::nullopt} : Complex{one, zeros_of(one)};
     }},
    {"eye(SymInt n, *, ScalarType? dtype=None)", [](Graph& g, Dim n, std::optional<DType> t) { return unit_matrix(g, n, n, t); }},
    {"eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None)", [](Graph& g, Dim n, Dim m, std::optional<DType> t) { return unit_matrix(g, n, m, t); }},
    {"prod(Tensor self, *, ScalarType? dtype=None)",
     [](Complex z, std::optional<DType> t) { return multiplied(each(cast_to(z, t), [](const Value& x) { return flatten(unsqueeze(x, 0), 0, -1); }), 0, false); }},
    {"prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None)",
     [](Complex z, int64_t axis, bool keepdim, std::optional<DType> t) { return multiplied(cast_to(z, t), axis, keepdim); }},
    {"cumprod(Tensor self, int dim, *, ScalarType? dtype=None)", [](Complex z, int64_t axis, std::optional<DType> t) { return multiplied_up(cast_to(z, t), axis); }},
    {"linear(Tensor input, Tensor weight, Tensor? bias=None)", Types::each,
     [](Complex x, Complex w, std::optional<Complex> b) {
       const Complex made = product(x, transposed(w));
       return b ? made + *b : made;
     }},
    {"{addmm,baddbmm}(Tensor self, Tensor {mat1,batch1}, Tensor {mat2,batch2}, *, Scalar beta=1, Scalar alpha=1)", Types::each,
     [](Complex x, Complex a, Complex b, Complex beta, Complex alpha) { return added(x, a, b, beta, alpha); }},
    {"vdot(Tensor self, Tensor other)", Types::each, [](Complex a, Complex b) { return product(conjugate(a), b); }},
    {"addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1)", Types::each, [](Complex x, Complex a, Complex b, Complex v) { return x + v * a * b; }},
};

enum class Part : uint8_t { real, imaginary };

// The arguments of a call with a part in each complex number's place; a real number is its own real part. `part_of` says which, by the operand's number.
class PartOfArguments {
 public:
  PartOfArguments(Graph& g, const Schema& schema, std::span<const ValueId> in) : g_(g), schema_(schema), in_(in) {}

  template <class F>
  void run(std::span<const Attribute> given, F part_of) {
    for (size_t i = 0; i < given.size(); ++i) arguments.push_back(argument(given[i], schema_.parameters[i], part_of));
  }

  std::vector<Attribute> arguments;
  std::vector<ValueId> in;

 private:
  template <class F>
  Attribute argument(const Attribute& v, const Parameter& p, F& part_of) {
    if (const auto* ref = std::get_if<Ref>(&v.value)) return operand(Value(&g_, in_[ref->index]), p, part_of);
    const bool is_one = p.type == "Scalar" || p.type == "Tensor" || p.name == "value";
    if (const auto* list = std::get_if<List>(&v.value)) {
      if (is_one && is_listed(p.name, factors)) fail(Code::unsupported, "a complex {}", p.name);
      if (is_one) return (*list)[part_of(number_++) == Part::real ? 0 : 1];
      List made;
      for (const Attribute& one : *list) made.push_back(argument(one, p, part_of));
      return made;
    }
    if (const auto* t = std::get_if<DType>(&v.value)) return is_complex(*t) ? part_type(*t) : *t;
    const bool is_number =
        std::holds_alternative<int64_t>(v.value) || std::holds_alternative<double>(v.value) || std::holds_alternative<bool>(v.value) || std::holds_alternative<Dim>(v.value);
    const bool real = !is_number || !is_one || is_listed(p.name, factors) || part_of(number_++) == Part::real;
    return real ? v : Attribute(0);
  }

  template <class F>
  Attribute operand(const Value& x, const Parameter& p, F& part_of) {
    Value chosen = x;
    if (!is_listed(p.name, shared_operands)) {
      const Part part = part_of(number_++);
      const Complex z = is_complex(x.dtype()) ? parts(x) : Complex{x, std::nullopt};
      chosen = part == Part::real ? z.re : z.imaginary();
    }
    in.push_back(chosen.id());
    return Ref{static_cast<uint32_t>(in.size() - 1)};
  }

  Graph& g_;
  const Schema& schema_;
  std::span<const ValueId> in_;
  int number_ = 0;
};

// A definition for real numbers, run on parts.
struct OnParts {
  const Operator& real;
  Graph& g;
  std::span<const Attribute> arguments;
  std::span<const ValueId> in;
  size_t recorded;

  template <class F>
  Results run(F part_of) const {
    PartOfArguments part(g, real.schema, in);
    part.run(arguments, part_of);
    return real.body(g, part.arguments, part.in, recorded);
  }

  Results each() const {
    const Results re = run([](int) { return Part::real; });
    for (const Attribute& v : arguments) {
      if (const auto* t = std::get_if<DType>(&v.value); t != nullptr && !is_complex(*t)) return re;
    }
    const Results im = run([](int) { return Part::imaginary; });
    Results out;
    for (size_t i = 0; i < re.size(); ++i) out.push_back(joined({re[i], im[i]}));
    return out;
  }

  Results product() const {
    if (in.size() != 2) fail(Code::unsupported, "a product of {} tensors of complex numbers", in.size());
    auto of = [&](Part a, Part b) { return run([&](int n) { return n == 0 ? a : b; })[0]; };
    const Value re = of(Part::real, Part::real) - of(Part::imaginary, Part::imaginary), im = of(Part::real, Part::imaginary) + of(Part::imaginary, Part::real);
    return {joined({re, im})};
  }

  // With a real number for each complex one.
  template <class F>
  Results reduced(F real_of) const {
    std::vector<ValueId> made(in.begin(), in.end());
    for (ValueId& v : made) {
      if (is_complex(g.type(v).dtype)) v = real_of(parts(Value(&g, v))).id();
    }
    return real.body(g, arguments, made, recorded);
  }

  Results magnitudes() const { return reduced(magnitude); }

  Results truths() const {
    return reduced([](const Complex& z) { return not_equal(z.re, 0) | not_equal(z.imaginary(), 0); });
  }

  // The first result from that of each part; others, the means, are numbers themselves.
  template <class F>
  Results spread(F whole) const {
    Results out = run([](int) { return Part::real; });
    const Results im = run([](int) { return Part::imaginary; });
    out[0] = whole(out[0], im[0]);
    for (size_t i = 1; i < out.size(); ++i) out[i] = joined({out[i], im[i]});
    return out;
  }

  Results sums() const {
    return spread([](const Value& re, const Value& im) { return re + im; });
  }

  Results lengths() const {
    return spread([](const Value& re, const Value& im) { return magnitude({re, im}); });
  }
};

}  // namespace

std::optional<Operator> on_parts(const Operator& real) {
  auto made = [&](Results (OnParts::*way)() const) {
    return Operator{
        real.schema,
        [&real, way](Graph& g, std::span<const Attribute> arguments, std::span<const ValueId> in, size_t recorded) { return (OnParts{real, g, arguments, in, recorded}.*way)(); },
        "complex"};
  };
  const bool multiplies = real.schema.overload.ends_with("reduce");  // scatter may
  if (is_listed(real.schema.name, on_each_part) && !multiplies) return made(&OnParts::each);
  if (is_listed(real.schema.name, linear_in_two)) return made(&OnParts::product);
  if (is_listed(real.schema.name, of_magnitudes)) return made(&OnParts::magnitudes);
  if (is_listed(real.schema.name, of_truth)) return made(&OnParts::truths);
  if (is_listed(real.schema.name, sums_of_parts)) return made(&OnParts::sums);
  if (is_listed(real.schema.name, lengths_of_parts)) return made(&OnParts::lengths);
  return std::nullopt;
}

std::span<const Definition> complex_definitions() { return complex_rows; }

Handle Complex::imaginary() const { return im ? *im : zeros_of(re); }

Complex conjugate(const Complex& z) { return z.im ? Complex{z.re, -*z.im} : z; }

Handle joined(const Complex& z) {
  Handle re = z.re, im = z.imaginary();
  const DType t = float_type(result_type(std::vector<Operand>{re, im}));
  if (t == DType::bf16) fail(Code::unsupported, "complex numbers of {}", torch_name_of(t));
  Graph& g = re.graph();
  const Dims dims = broadcast(re.dims(), im.dims(), g.symbols);
  auto part = [&](const Handle& x) { return expand(cast(x, t), dims).id(); };
  const std::vector<ValueId> in{part(re), part(im)};
  return {&g, g.add(Op::call, in, {{"target", std::string(pair_target)}}, {complex_type(t), dims})};
}

Complex parts(const Handle& z) {
  Graph& g = z.graph();
  const Node n = g.producer(z.id());
  if (n.op == Op::view) {
    const Complex whole = parts(Handle(&g, n.in[0]));
    return {view(whole.re, n.attributes.map("map")), view(whole.imaginary(), n.attributes.map("map"))};
  }
  if (n.op != Op::call || n.in.size() != 2 || n.attributes.string("target") != pair_target) fail(Code::internal, "a complex value is not a pair of real ones");
  return {Handle(&g, n.in[0]), Handle(&g, n.in[1])};
}

// The tensor of which these are both parts, if there is one: of_interleaved() took them from it.
static std::optional<Handle> whole_of(const Complex& z) {
  Graph& g = z.re.graph();
  const ValueId second = z.imaginary().id();
  const Node &re = g.producer(z.re.id()), &im = g.producer(second);
  if (re.op != Op::view || im.op != Op::view || re.in != im.in) return std::nullopt;
  const Handle whole(&g, re.in[0]);
  AffineMap part{z.re.dims(), {}, std::nullopt};
  for (uint32_t d = 0; d < part.dims.size(); ++d) part.axes.push_back({0, {{d, 1}}});
  for (int64_t which : {0, 1}) {
    AffineMap map = part;
    map.axes.push_back({which, {}});
    if (!((which == 0 ? re : im).attributes.map("map") == map)) return std::nullopt;
  }
  return whole.dim(-1) == Dim(2) ? std::optional(whole) : std::nullopt;
}

Handle interleaved(const Handle& complex) {
  const Complex z = parts(complex);
  if (const auto whole = whole_of(z)) return *whole;
  return concat({unsqueeze(z.re, -1), unsqueeze(z.imaginary(), -1)}, -1);
}

Handle of_interleaved(const Handle& real) { return joined({take(real, -1, 0), take(real, -1, 1)}); }

bool has_complex(const Graph& g, const Node& n) {
  auto is_one = [&](ValueId v) { return is_complex(g.type(v).dtype); };
  return std::any_of(n.in.begin(), n.in.end(), is_one) || std::any_of(n.out.begin(), n.out.end(), is_one);
}

}  // namespace ingot::ops
