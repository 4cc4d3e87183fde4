// Arithmetic and elementary functions, element by element.
#include <cmath>

#include "base/error.h"
#include "ops/binding.h"
#include "ops/bits.h"

namespace ingot::ops {

using namespace ir;

namespace {

// The factor is converted to the operand's type, as in eager: integers drop its fraction.
Value scaled(const Value& b, const Scalar& alpha) {
  if (auto* one = std::get_if<int64_t>(&alpha.value); one != nullptr && *one == 1) return b;
  return b * literal(b.graph(), alpha, b.dtype());
}

Operand scaled_operand(const Operand& b, const Scalar& alpha) {
  if (b.value) return scaled(*b.value, alpha);
  if (auto* one = std::get_if<int64_t>(&alpha.value); one != nullptr && *one == 1) return b;
  if (b.number.is_float() || alpha.is_float()) return b.number.to_double() * alpha.to_double();
  return b.number.to_int() * alpha.to_int();
}

Value divide(const Value& a, const Operand& b, const std::optional<std::string>& mode) {
  if (!mode) return a / b;
  if (*mode == "floor") return ir::map(Op::floordiv, {a, b});
  if (*mode == "trunc") {
    // Half tensors: of the quotient rounded to their type, as in eager; a number divides in float32.
    const DType t = ir::result_type(std::vector<Operand>{a, b});
    if (is_float(t) && size_of(t) == 2 && b.value && b.value->rank() > 0) return ir::map(Op::trunc, {cast(widened(cast(a, t)) / widened(cast(*b.value, t)), t)});
    return ir::map(Op::truncdiv, {a, b});
  }
  fail(Code::unsupported, "div: rounding_mode \"{}\"", *mode);
}

// x 2^e for whole e, in float64: by its bits, which have exponents to 1022. Of float64 it takes three factors.
Value times_power_of_two(const Value& x, const Value& e) {
  constexpr int64_t exponent_of_one = 1023, fraction_bits = 52, max_factor = 1000;
  const DType t = to_float(x).dtype();
  const int64_t factors = t == DType::f64 ? 3 : 1;
  Value left = minimum(maximum(cast(e, DType::i64), -factors * max_factor), factors * max_factor), made = cast(x, DType::f64);
  for (int64_t i = factors; i > 0; --i) {
    const Value here = i == 1 ? left : ir::map(Op::truncdiv, {left, i});
    made = made * of_same_bytes(ir::map(Op::shift_left, {here + exponent_of_one, fraction_bits}), DType::f64);
    left = left - here;
  }
  return cast(made, t);
}

Value power(const Value& x, const Scalar& e) {
  if (!is_float(x.dtype()) && e.is_integer() && !std::holds_alternative<Dim>(e.value) && e.to_int() < 0) fail(Code::unsupported, "pow: integers to a negative integer power");
  // The exponents people write, without a general power.
  if (is_float(x.dtype()) && !std::holds_alternative<Dim>(e.value)) {
    double v = e.to_double();
    if (v == 2) return x * x;
    if (v == 1) return x;
    if (v == 0.5) return ir::sqrt(x);
    if (v == -0.5) return ir::rsqrt(x);
    if (v == 3) return x * x * x;
    if (v == -1) return 1 / x;
  }
  return ir::map(Op::pow, {x, e});
}

Value logical(Op op, const Value& a, const Value& b) { return ir::map(op, {to_bool(a), to_bool(b)}); }

Value rounded(Op op, const Value& x) { return is_float(x.dtype()) ? ir::map(op, {x}) : x; }

Value rounded_to_decimals(const Value& x, int64_t decimals) {
  if (!is_float(x.dtype()) || decimals == 0) return rounded(Op::round, x);
  const double ten = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  return decimals > 0 ? round(x * ten) / ten : round(x / ten) * ten;
}

// Computed in f32 for half tensors, and rounded once, from the nearer end, as in eager.
Value lerp(const Value& self, const Value& end, const Operand& weight) {
  if (!is_float(self.dtype())) fail(Code::unsupported, "lerp is for floating-point numbers, not {}", name_of(self.dtype()));
  const Value a = widened(self), b = widened(end);
  auto from_start = [&](const Operand& w) { return a + (b - a) * w; };
  if (!weight.value) {
    const double w = weight.number.to_double();
    return cast(std::abs(w) < 0.5 ? from_start(weight) : b - (b - a) * (1 - w), self.dtype());
  }
  const Value w = widened(*weight.value);
  return cast(select(abs(w) < 0.5, from_start(w), b - (b - a) * (1 - w)), self.dtype());
}

Value addcdiv(Value x, Value a, Value b, const Scalar& v) {
  if (!is_float(a.dtype()) && !is_float(b.dtype())) fail(Code::unsupported, "addcdiv: torch divides no integers");
  const DType t = ir::result_type(std::vector<Operand>{x, a, b});
  return cast(widened(cast(x, t)) + scaled(widened(cast(a, t)), v) / widened(cast(b, t)), t);
}

// x = mantissa * 2^exponent with a mantissa from 0.5 to 1. The powers of two are exact, and each is within the type's range.
std::pair<Value, Value> mantissa_and_exponent(const Value& given) {
  if (!is_float(given.dtype())) fail(Code::unsupported, "frexp of {}", name_of(given.dtype()));
  const Value x = widened(given), a = abs(x), ordinary = (a > 0.0) & (a < INFINITY);
  auto scaled_down = [](const Value& v, const Value& by) {
    const Value half = floor(by * 0.5);
    return v * exp2(-half) * exp2(half - by);
  };
  const Value guess = floor(log2(select(ordinary, a, 1.0))) + 1.0, m = abs(scaled_down(x, guess));
  const Value exponent = guess + select(m >= 1.0, 1.0, select(m < 0.5, -1.0, 0.0));
  return {cast(select(ordinary, scaled_down(x, exponent), x), given.dtype()), cast(select(ordinary, exponent, 0.0), DType::i32)};
}

Value logaddexp(const Value& a, const Value& b) {
  if (!is_float(a.dtype())) fail(Code::unsupported, "logaddexp is for floating-point numbers, not {}", name_of(a.dtype()));
  Value m = maximum(a, b);
  Value y = m + log1p(exp(-abs(a - b)));
  return select(equal(a, b) & ir::map(Op::is_inf, {m}), m, y);
}

Value logaddexp2(const Value& a, const Value& b) {
  if (!is_float(a.dtype())) fail(Code::unsupported, "logaddexp2 is for floating-point numbers, not {}", name_of(a.dtype()));
  Value m = maximum(a, b);
  return select(equal(a, b) & ir::map(Op::is_inf, {m}), m, m + log1p(exp2(-abs(a - b))) / M_LN2);
}

const Definition pointwise_rows[] = {
    {"add.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other, *, Scalar alpha=1)", Types::common, [](Value a, Operand b, Scalar alpha) { return a + scaled_operand(b, alpha); }},
    {"sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)", Types::numbers, [](Value a, Operand b, Scalar alpha) { return a - scaled_operand(b, alpha); }},
    {"sub.Scalar(Tensor self, Scalar other, Scalar alpha=1)", Types::numbers, [](Value a, Operand b, Scalar alpha) { return a - scaled_operand(b, alpha); }},
    {"rsub.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other, *, Scalar alpha=1)", Types::numbers, [](Value a, Operand b, Scalar alpha) { return ir::map(Op::sub, {b, scaled(a, alpha)}); }},
    {"mul.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return a * b; }},
    {"div.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::floats, [](Value a, Operand b) { return a / b; }},
    {"div.{Tensor_mode,Scalar_mode}(Tensor self, {Tensor,Scalar} other, *, str? rounding_mode)", Types::each, [](Value a, Operand b, std::optional<std::string> mode) { return divide(a, b, mode); }},
    {"prims::div(Tensor self, Tensor other)", Types::same, [](Value a, Value b) { return is_float(a.dtype()) ? a / b : ir::map(Op::truncdiv, {a, b}); }},
    {"divide.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::floats, [](Value a, Operand b) { return a / b; }},
    {"divide.{Tensor_mode,Scalar_mode}(Tensor self, {Tensor,Scalar} other, *, str? rounding_mode)", Types::each, [](Value a, Operand b, std::optional<std::string> mode) { return divide(a, b, mode); }},
    {"multiply.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return a * b; }},
    {"subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)", Types::numbers, [](Value a, Operand b, Scalar alpha) { return a - scaled_operand(b, alpha); }},
    {"subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1)", Types::numbers, [](Value a, Operand b, Scalar alpha) { return a - scaled_operand(b, alpha); }},
    {"true_divide.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::floats, [](Value a, Operand b) { return a / b; }},
    {"floor_divide(Tensor self, Tensor other)", Types::common, [](Value a, Operand b) { return ir::map(Op::floordiv, {a, b}); }},
    {"floor_divide.Scalar(Tensor self, Scalar other)", [](Value a, Operand b) { return ir::map(Op::floordiv, {a, b}); }},
    {"remainder.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return ir::map(Op::mod, {a, b}); }},
    {"remainder.Scalar_Tensor(Scalar self, Tensor other)", Types::numbers, [](Value a, Value b) { return ir::map(Op::mod, {a, b}); }},
    {"fmod.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return ir::map(Op::fmod, {a, b}); }},
    {"pow.Tensor_Scalar(Tensor self, Scalar exponent)", [](Value x, Scalar e) { return power(x, e); }},
    {"pow.Tensor_Tensor(Tensor self, Tensor exponent)", Types::common, [](Value x, Value e) { return ir::map(Op::pow, {x, e}); }},
    {"pow.Scalar(Scalar self, Tensor exponent)", [](Scalar x, Value e) { return ir::map(Op::pow, {x, e}); }},
    {"float_power.{Tensor_Tensor,Tensor_Scalar,Scalar}({Tensor,Tensor,Scalar} self, {Tensor,Scalar,Tensor} exponent)", Types::each,
     [](Operand x, Operand e) {
       auto wide = [](const Operand& o) { return o.value ? Operand(cast(*o.value, DType::f64)) : o; };
       return ir::map(Op::pow, {wide(x), wide(e)});
     }},
    {"maximum(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return maximum(a, b); }},
    {"minimum(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return minimum(a, b); }},
    {"max.other(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return maximum(a, b); }},
    {"min.other(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return minimum(a, b); }},
    {"fmax(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return ir::map(Op::fmax, {a, b}); }},
    {"fmin(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return ir::map(Op::fmin, {a, b}); }},
    {"atan2(Tensor self, Tensor other)", Types::floats, [](Value a, Value b) { return float_map(Op::atan2, {a, b}); }},
    {"arctan2(Tensor self, Tensor other)", Types::floats, [](Value a, Value b) { return float_map(Op::atan2, {a, b}); }},
    {"copysign.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::floats, [](Value a, Operand b) { return float_map(Op::copysign, {a, b}); }},
    {"hypot(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return ir::map(Op::hypot, {a, b}); }},
    {"nextafter(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return ir::map(Op::nextafter, {a, b}); }},
    {"gcd(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return ir::map(Op::gcd, {a, b}); }},
    {"lcm(Tensor self, Tensor other)", Types::common,
     [](Value a, Value b) {
       const Value divisor = ir::map(Op::gcd, {a, b});
       return abs(ir::map(Op::truncdiv, {a, select(equal(divisor, 0), 1, divisor)}) * b);
     }},
    {"ldexp.Tensor(Tensor self, Tensor other)", Types::each,
     [](Value x, Value e) {
       if (is_bool(e.dtype())) fail(Code::unsupported, "ldexp by a power that is a bool");
       return is_float(x.dtype()) && !is_float(e.dtype()) ? times_power_of_two(x, e) : x * ir::map(Op::pow, {2.0, e});
     }},
    {"logaddexp(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return logaddexp(a, b); }},
    {"logaddexp2(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return logaddexp2(a, b); }},
    {"xlogy.{Tensor,Scalar_Other,Scalar_Self}({Tensor,Tensor,Scalar} self, {Tensor,Scalar,Tensor} other)", Types::floats, [](Value a, Value b) { return select(ir::map(Op::is_nan, {b}), b, select(equal(a, 0), 0.0, a * log(b))); }},
    {"lerp.{Scalar,Tensor}(Tensor self, Tensor end, {Scalar,Tensor} weight)", Types::same, [](Value a, Value b, Operand w) { return lerp(a, b, w); }},
    {"addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1)", Types::common, [](Value x, Value a, Value b, Scalar v) { return cast(widened(x) + scaled(widened(a), v) * widened(b), x.dtype()); }},
    {"addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1)", Types::each, [](Value x, Value a, Value b, Scalar v) { return addcdiv(x, a, b, v); }},
    {"neg(Tensor self)", [](Value x) { return -x; }},
    {"negative(Tensor self)", [](Value x) { return -x; }},
    {"positive(Tensor self)", [](Value x) { return x; }},
    {"{abs,absolute}(Tensor self)", Types::numbers, [](Value x) { return abs(x); }},
    {"sign(Tensor self)", [](Value x) { return is_bool(x.dtype()) ? x : ir::map(Op::sign, {x}); }},
    {"sgn(Tensor self)", [](Value x) { return is_bool(x.dtype()) ? x : ir::map(Op::sign, {x}); }},
    {"square(Tensor self)", [](Value x) { return is_bool(x.dtype()) ? cast(x, DType::i64) : x * x; }},
    {"reciprocal(Tensor self)", [](Value x) { return 1 / x; }},
    {"exp(Tensor self)", [](Value x) { return exp(x); }},
    {"{exp2,special_exp2}(Tensor self)", [](Value x) { return exp2(x); }},
    {"{expm1,special_expm1}(Tensor self)", [](Value x) { return expm1(x); }},
    {"log(Tensor self)", [](Value x) { return log(x); }},
    {"log2(Tensor self)", [](Value x) { return log2(x); }},
    {"log10(Tensor self)", [](Value x) { return log10(x); }},
    {"{log1p,special_log1p}(Tensor self)", [](Value x) { return log1p(x); }},
    {"sqrt(Tensor self)", [](Value x) { return sqrt(x); }},
    {"rsqrt(Tensor self)", [](Value x) { return rsqrt(x); }},
    {"sin(Tensor self)", [](Value x) { return sin(x); }},
    {"cos(Tensor self)", [](Value x) { return cos(x); }},
    {"tan(Tensor self)", [](Value x) { return tan(x); }},
    {"asin(Tensor self)", [](Value x) { return asin(x); }},
    {"acos(Tensor self)", [](Value x) { return acos(x); }},
    {"atan(Tensor self)", [](Value x) { return atan(x); }},
    {"sinh(Tensor self)", [](Value x) { return sinh(x); }},
    {"cosh(Tensor self)", [](Value x) { return cosh(x); }},
    {"tanh(Tensor self)", [](Value x) { return tanh(x); }},
    {"asinh(Tensor self)", [](Value x) { return asinh(x); }},
    {"acosh(Tensor self)", [](Value x) { return acosh(x); }},
    {"atanh(Tensor self)", [](Value x) { return atanh(x); }},
    {"arcsin(Tensor self)", [](Value x) { return asin(x); }},
    {"arccos(Tensor self)", [](Value x) { return acos(x); }},
    {"arctan(Tensor self)", [](Value x) { return atan(x); }},
    {"arcsinh(Tensor self)", [](Value x) { return asinh(x); }},
    {"arccosh(Tensor self)", [](Value x) { return acosh(x); }},
    {"arctanh(Tensor self)", [](Value x) { return atanh(x); }},
    {"{erf,special_erf}(Tensor self)", [](Value x) { return erf(x); }},
    {"{erfc,special_erfc}(Tensor self)", [](Value x) { return erfc(x); }},
    {"{erfinv,special_erfinv}(Tensor self)", [](Value x) { return erfinv(x); }},
    {"{lgamma,special_gammaln}(Tensor self)", [](Value x) { return lgamma(x); }},
    {"{digamma,special_digamma,special_psi}(Tensor self)", [](Value x) { return digamma(x); }},
    {"floor(Tensor self)", Types::numbers, [](Value x) { return rounded(Op::floor, x); }},
    {"ceil(Tensor self)", Types::numbers, [](Value x) { return rounded(Op::ceil, x); }},
    {"trunc(Tensor self)", Types::numbers, [](Value x) { return rounded(Op::trunc, x); }},
    {"fix(Tensor self)", Types::numbers, [](Value x) { return rounded(Op::trunc, x); }},
    {"round(Tensor self)", Types::numbers, [](Value x) { return rounded(Op::round, x); }},
    {"round.decimals(Tensor self, *, int decimals)", Types::only_floats,
     [](Value x, int64_t decimals) { return rounded_to_decimals(x, decimals); }},
    {"special_round(Tensor self, *, int decimals=0)", Types::only_floats, [](Value x, int64_t decimals) { return rounded_to_decimals(x, decimals); }},
    {"special_ndtr(Tensor self)", [](Value x) { return (erf(to_float(x) * M_SQRT1_2) + 1.0) * 0.5; }},
    {"special_xlogy.{,other_scalar,self_scalar}({Tensor,Tensor,Scalar} self, {Tensor,Scalar,Tensor} other)", Types::floats, [](Value a, Value b) { return select(ir::map(Op::is_nan, {b}), b, select(equal(a, 0), 0.0, a * log(b))); }},
    {"special_xlog1py.{,self_scalar,other_scalar}({Tensor,Scalar,Tensor} self, {Tensor,Tensor,Scalar} other)", Types::floats,
     [](Value a, Value b) { return select(ir::map(Op::is_nan, {b}), b, select(equal(a, 0), 0.0, a * log1p(b))); }},
    {"frac(Tensor self)", Types::only_floats, [](Value x) { return x - trunc(x); }},
    {"special_entr(Tensor self)", [](Value x) { x = to_float(x); return select(x < 0, -INFINITY, select(equal(x, 0), 0.0, -x * log(x))); }},
    {"frexp.Tensor(Tensor self)", [](Value x) { return mantissa_and_exponent(x); }},
    {"rad2deg(Tensor self)", [](Value x) { return to_float(x) * 57.29577951308232; }},
    {"deg2rad(Tensor self)", [](Value x) { return to_float(x) * 0.017453292519943295; }},
    {"{sinc,special_sinc}(Tensor self)", [](Value x) { Value p = to_float(x) * 3.141592653589793; return select(equal(x, 0), 1.0, sin(p) / p); }},
    {"{logit,special_logit}(Tensor self, float? eps=None)", [](Value x, std::optional<double> eps) { x = to_float(x); if (eps) x = clamp(x, Operand(*eps), Operand(1 - *eps)); return log(x / (1 - x)); }},
    {"nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None)",
     [](Value x, std::optional<double> nan, std::optional<double> high, std::optional<double> low) {
       if (!is_float(x.dtype())) return x;
       double largest = x.dtype() == DType::f64 ? 1.7976931348623157e308 : x.dtype() == DType::f16 ? 65504.0 : x.dtype() == DType::bf16 ? 3.3895313892515355e38 : 3.4028234663852886e38;
       Value y = high ? select(equal(x, INFINITY), *high, x) : minimum(x, largest);
       y = low ? select(equal(x, -INFINITY), *low, y) : maximum(y, -largest);
       return cast(select(ir::map(Op::is_nan, {x}), nan.value_or(0.0), y), x.dtype());
     }},
    {"{clamp,clip}(Tensor self, Scalar? min=None, Scalar? max=None)",
     [](Value x, std::optional<Scalar> lo, std::optional<Scalar> hi) { return clamp(x, lo ? std::optional<Operand>(*lo) : std::nullopt, hi ? std::optional<Operand>(*hi) : std::nullopt); }},
    {"{clamp,clip}.Tensor(Tensor self, Tensor? min=None, Tensor? max=None)", Types::common,
     [](Value x, std::optional<Value> lo, std::optional<Value> hi) { return clamp(x, lo ? std::optional<Operand>(*lo) : std::nullopt, hi ? std::optional<Operand>(*hi) : std::nullopt); }},
    {"clamp_min(Tensor self, Scalar min)", [](Value x, Scalar lo) { return clamp(x, Operand(lo), std::nullopt); }},
    {"clamp_max(Tensor self, Scalar max)", [](Value x, Scalar hi) { return clamp(x, std::nullopt, Operand(hi)); }},
    {"clamp_min.Tensor(Tensor self, Tensor min)", Types::common, [](Value x, Value lo) { return clamp(x, Operand(lo), std::nullopt); }},
    {"clamp_max.Tensor(Tensor self, Tensor max)", Types::common, [](Value x, Value hi) { return clamp(x, std::nullopt, Operand(hi)); }},
    {"bitwise_and.{Tensor,Scalar,Scalar_Tensor}({Tensor,Tensor,Scalar} self, {Tensor,Scalar,Tensor} other)", Types::common, [](Value a, Operand b) { return a & b; }},
    {"bitwise_or.{Tensor,Scalar,Scalar_Tensor}({Tensor,Tensor,Scalar} self, {Tensor,Scalar,Tensor} other)", Types::common, [](Value a, Operand b) { return a | b; }},
    {"bitwise_xor.{Tensor,Scalar,Scalar_Tensor}({Tensor,Tensor,Scalar} self, {Tensor,Scalar,Tensor} other)", Types::common, [](Value a, Operand b) { return a ^ b; }},
    {"__and__.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return a & b; }},
    {"__or__.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return a | b; }},
    {"__xor__.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return a ^ b; }},
    {"__lshift__.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return ir::map(Op::shift_left, {a, b}); }},
    {"__rshift__.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return ir::map(Op::shift_right, {a, b}); }},
    {"bitwise_not(Tensor self)", [](Value x) { return ir::map(Op::bit_not, {x}); }},
    {"bitwise_left_shift.{Tensor,Tensor_Scalar,Scalar_Tensor}({Tensor,Tensor,Scalar} self, {Tensor,Scalar,Tensor} other)", Types::common, [](Value a, Operand b) { return ir::map(Op::shift_left, {a, b}); }},
    {"bitwise_right_shift.{Tensor,Tensor_Scalar,Scalar_Tensor}({Tensor,Tensor,Scalar} self, {Tensor,Scalar,Tensor} other)", Types::common, [](Value a, Operand b) { return ir::map(Op::shift_right, {a, b}); }},
    {"logical_and(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return logical(Op::bit_and, a, b); }},
    {"logical_or(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return logical(Op::bit_or, a, b); }},
    {"logical_xor(Tensor self, Tensor other)", Types::common, [](Value a, Value b) { return logical(Op::bit_xor, a, b); }},
    {"logical_not(Tensor self)", [](Value x) { return logical_not(x); }},
};

}  // namespace

std::span<const Definition> pointwise_definitions() { return pointwise_rows; }

}  // namespace ingot::ops
