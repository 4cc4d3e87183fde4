// What every map primitive means, on one element: integers in 64 bits, floats in double; the caller wraps and rounds.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

#include "base/error.h"
#include "ir/dtype.h"
#include "ir/half.h"
#include "ir/op.h"

namespace ingot::ir {

// How torch truncates floats on x86: to 32 bits for these, to 64 for others, to the least number of that width where it does not fit; then it drops bits.
constexpr bool truncates_to_32_bits(DType to) { return to == DType::i8 || to == DType::i16 || to == DType::i32; }

inline int64_t wrap(__int128 v) { return static_cast<int64_t>(static_cast<uint64_t>(v)); }

// The integer as one of the type.
inline int64_t wrap_to(DType t, int64_t v) {
  switch (t) {
    case DType::b8: return v != 0;
    case DType::u8: return static_cast<uint8_t>(v);
    case DType::i8: return static_cast<int8_t>(v);
    case DType::i16: return static_cast<int16_t>(v);
    case DType::i32: return static_cast<int32_t>(v);
    default: return v;
  }
}

inline double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    double fraction = x - std::trunc(x);  // reflection; floor would round tiny negative x away
    return digamma(1 - x) - M_PI / std::tan(M_PI * fraction);
  }
  double shift = 0;
  for (; x < 12; ++x) shift -= 1 / x;  // recurrence up to where the series holds
  double z = 1 / (x * x);
  double series = z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return shift + std::log(x) - 0.5 / x - series;
}

inline double erfinv(double y) {
  if (std::isnan(y) || y < -1 || y > 1) return std::numeric_limits<double>::quiet_NaN();
  if (std::fabs(y) == 1) return std::copysign(std::numeric_limits<double>::infinity(), y);
  // Winitzki's closed form, then Newton steps on erf.
  double w = std::log1p(-y * y), t = 2 / (M_PI * 0.147) + w / 2;
  double x = std::copysign(std::sqrt(std::sqrt(t * t - w / 0.147) - t), y);
  for (int i = 0; i < 4; ++i) {
    double error = std::fabs(y) < 0.5 ? std::erf(x) - y : std::copysign(1.0, y) * (1 - std::fabs(y) - std::erfc(std::fabs(x)));
    double slope = 2 / std::sqrt(M_PI) * std::exp(-x * x);
    if (slope == 0) break;
    x -= error / slope;
  }
  return x;
}

#define INGOT_FUNCTION inline
#include "ir/incomplete_gamma.cuh"
#undef INGOT_FUNCTION

inline double float_unary(Op op, double x) {
  switch (op) {
    case Op::neg: return -x;
    case Op::abs: return std::fabs(x);
    case Op::sign: return x > 0 ? 1 : x < 0 ? -1 : 0;
    case Op::relu: return x < 0 ? 0 : x;
    case Op::exp: return std::exp(x);
    case Op::exp2: return std::exp2(x);
    case Op::expm1: return std::expm1(x);
    case Op::log: return std::log(x);
    case Op::log2: return std::log2(x);
    case Op::log10: return std::log10(x);
    case Op::log1p: return std::log1p(x);
    case Op::sqrt: return std::sqrt(x);
    case Op::rsqrt: return 1 / std::sqrt(x);
    case Op::sin: return std::sin(x);
    case Op::cos: return std::cos(x);
    case Op::tan: return std::tan(x);
    case Op::asin: return std::asin(x);
    case Op::acos: return std::acos(x);
    case Op::atan: return std::atan(x);
    case Op::sinh: return std::sinh(x);
    case Op::cosh: return std::cosh(x);
    case Op::tanh: return std::tanh(x);
    case Op::asinh: return std::asinh(x);
    case Op::acosh: return std::acosh(x);
    case Op::atanh: return std::atanh(x);
    case Op::erf: return std::erf(x);
    case Op::erfc: return std::erfc(x);
    case Op::erfinv: return erfinv(x);
    case Op::lgamma: {
      int sign;
      return ::lgamma_r(x, &sign);
    }
    case Op::digamma: return digamma(x);
    case Op::sigmoid: return 1 / (1 + std::exp(-x));
    case Op::gelu: return 0.5 * x * std::erfc(-x * M_SQRT1_2);
    case Op::gelu_tanh: return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));  // 1 + tanh(u) would lose its digits
    case Op::silu: return x / (1 + std::exp(-x));
    case Op::softplus: return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))) + (std::isnan(x) ? x : 0);
    case Op::floor: return std::floor(x);
    case Op::ceil: return std::ceil(x);
    case Op::trunc: return std::trunc(x);
    case Op::round: return std::nearbyint(x);
    default: fail(Code::internal, "{} has no meaning on floats", name_of(op));
  }
}

inline double float_binary(Op op, double a, double b) {
  switch (op) {
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div: return a / b;
    case Op::truncdiv: return std::trunc(a / b);
    case Op::floordiv: {
      if (b == 0) return a / b;
      double r = std::fmod(a, b), q = (a - r) / b;
      if (r != 0 && (b < 0) != (r < 0)) q -= 1;
      if (q == 0) return std::copysign(0.0, a / b);
      double f = std::floor(q);
      return q - f > 0.5 ? f + 1 : f;
    }
    case Op::mod: {
      double r = std::fmod(a, b);
      return r != 0 && (b < 0) != (r < 0) ? r + b : r;
    }
    case Op::fmod: return std::fmod(a, b);
    case Op::pow: return std::pow(a, b);
    case Op::min: return std::isnan(a) || std::isnan(b) ? a + b : a < b ? a : b;
    case Op::max: return std::isnan(a) || std::isnan(b) ? a + b : a > b ? a : b;
    case Op::fmin: return std::fmin(a, b);
    case Op::fmax: return std::fmax(a, b);
    case Op::atan2: return std::atan2(a, b);
    case Op::copysign: return std::copysign(a, b);
    case Op::hypot: return std::hypot(a, b);
    case Op::gammainc: return incomplete_gamma(a, b, false);
    case Op::gammaincc: return incomplete_gamma(a, b, true);
    default: fail(Code::internal, "{} has no meaning on floats", name_of(op));
  }
}

inline int64_t int_unary(Op op, int64_t x) {
  switch (op) {
    case Op::neg: return wrap(-static_cast<__int128>(x));
    case Op::abs: return wrap(x < 0 ? -static_cast<__int128>(x) : x);
    case Op::sign: return (x > 0) - (x < 0);
    case Op::relu: return std::max<int64_t>(x, 0);
    case Op::bit_not: return ~x;
    case Op::floor:
    case Op::ceil:
    case Op::trunc:
    case Op::round: return x;
    default: fail(Code::internal, "{} has no meaning on integers", name_of(op));
  }
}

inline int64_t int_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  int64_t r = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) r = wrap(static_cast<__int128>(r) * base);
    base = wrap(static_cast<__int128>(base) * base);
  }
  return r;
}

// `bits`: width of the type, for shifts.
inline int64_t int_binary(Op op, int64_t a, int64_t b, int bits, bool is_signed) {
  auto nonzero = [&] {
    if (b == 0) fail(Code::invalid_input, "{}: an integer is divided by zero", name_of(op));
  };
  switch (op) {
    case Op::add: return wrap(static_cast<__int128>(a) + b);
    case Op::sub: return wrap(static_cast<__int128>(a) - b);
    case Op::mul: return wrap(static_cast<__int128>(a) * b);
    case Op::truncdiv: nonzero(); return wrap(static_cast<__int128>(a) / b);
    case Op::floordiv: {
      nonzero();
      __int128 q = static_cast<__int128>(a) / b;
      return wrap(q - (a % (b == -1 ? 1 : b) != 0 && (a < 0) != (b < 0)));
    }
    case Op::mod: {
      nonzero();
      if (b == -1) return 0;
      int64_t r = a % b;
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case Op::fmod: nonzero(); return b == -1 ? 0 : a % b;
    case Op::pow: return int_power(a, b);
    case Op::min:
    case Op::fmin: return std::min(a, b);
    case Op::max:
    case Op::fmax: return std::max(a, b);
    case Op::gcd: {  // of the least number there is no magnitude in the type: ATen goes on with the number itself
      auto magnitude = [&](int64_t v) { return v < 0 && (bits == 64 || v != INT64_C(-1) << (bits - 1)) ? wrap(-static_cast<__int128>(v)) : v; };
      int64_t x = magnitude(a), y = magnitude(b);
      while (x != 0) {
        const int64_t rest = x == -1 ? 0 : y % x;
        y = x;
        x = rest;
      }
      return y;
    }
    case Op::bit_and: return a & b;
    case Op::bit_or: return a | b;
    case Op::bit_xor: return a ^ b;
    // Shifts by the width or more, or by a negative count, give 0, or -1 for a negative signed number shifted right (ATen).
    case Op::shift_left: return b < 0 || b >= bits ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
    case Op::shift_right: return b < 0 || b >= bits ? (is_signed && a < 0 ? -1 : 0) : a >> b;
    default: fail(Code::internal, "{} has no meaning on integers", name_of(op));
  }
}

template <class T>
bool compare(Op op, T a, T b) {
  switch (op) {
    case Op::eq: return a == b;
    case Op::ne: return a != b;
    case Op::lt: return a < b;
    case Op::le: return a <= b;
    case Op::gt: return a > b;
    default: return a >= b;
  }
}

// A number: `f` if its type is a float, else `i`.
struct Element {
  double f = 0;
  int64_t i = 0;
};

inline Element cast_element(DType to, DType from, const Element& x) {
  if (is_float(to)) {
    const bool narrow = from == DType::i64 && to == DType::f32;  // rounded once
    return {is_float(from) ? x.f : narrow ? static_cast<double>(static_cast<float>(x.i)) : static_cast<double>(x.i), 0};
  }
  if (!is_float(from)) return {0, x.i};
  if (to == DType::b8) return {0, x.f != 0};
  const int64_t least = truncates_to_32_bits(to) ? INT32_MIN : INT64_MIN;
  const double v = std::trunc(x.f), end = -static_cast<double>(least);
  return {0, v >= -end && v < end ? static_cast<int64_t>(v) : least};
}

// The bits of a float, or the float of such bits; halves are numbers of their type.
inline Element bitcast_element(DType to, DType from, const Element& x) {
  const auto single = static_cast<float>(x.f);
  switch (is_float(from) ? from : to) {
    case DType::f64: return is_float(from) ? Element{0, std::bit_cast<int64_t>(x.f)} : Element{std::bit_cast<double>(x.i), 0};
    case DType::f32: return is_float(from) ? Element{0, std::bit_cast<int32_t>(single)} : Element{std::bit_cast<float>(static_cast<int32_t>(x.i)), 0};
    case DType::f16: return is_float(from) ? Element{0, static_cast<int16_t>(float_to_f16(single))} : Element{f16_to_float(static_cast<uint16_t>(x.i)), 0};
    case DType::bf16: return is_float(from) ? Element{0, static_cast<int16_t>(float_to_bf16(single))} : Element{bf16_to_float(static_cast<uint16_t>(x.i)), 0};
    default: fail(Code::internal, "bitcast has no meaning from {} to {}", name_of(from), name_of(to));
  }
}

// What the map `op` computes from elements of the types `from`; not yet rounded or wrapped to `to`.
inline Element map_element(Op op, DType to, std::span<const DType> from, std::span<const Element> in) {
  const bool floating = is_float(from[0]), boolean = result_of(op) == ResultType::boolean;
  switch (op) {
    case Op::select: return in[0].i != 0 ? in[1] : in[2];
    case Op::cast: return cast_element(to, from[0], in[0]);
    case Op::bitcast: return bitcast_element(to, from[0], in[0]);
    case Op::logical_not: return {0, in[0].i == 0};
    case Op::is_nan: return {0, floating && std::isnan(in[0].f)};
    case Op::is_inf: return {0, floating && std::isinf(in[0].f)};
    case Op::signbit: return {0, floating ? std::signbit(in[0].f) : in[0].i < 0};
    case Op::nextafter:
      return {to == DType::f64 ? std::nextafter(in[0].f, in[1].f) : static_cast<double>(std::nextafterf(static_cast<float>(in[0].f), static_cast<float>(in[1].f))), 0};
    default: break;
  }
  if (boolean) return {0, floating ? compare(op, in[0].f, in[1].f) : compare(op, in[0].i, in[1].i)};
  if (is_float(to)) return {in.size() == 1 ? float_unary(op, in[0].f) : float_binary(op, in[0].f, in[1].f), 0};
  if (to == DType::b8 && op == Op::bit_not) return {0, in[0].i == 0};
  if (to == DType::b8 && op == Op::add) return {0, in[0].i | in[1].i};
  if (in.size() == 1) return {0, int_unary(op, in[0].i)};
  return {0, int_binary(op, in[0].i, in[1].i, static_cast<int>(size_of(to)) * 8, to != DType::u8)};
}

}  // namespace ingot::ir
