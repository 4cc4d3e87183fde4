// glibc's vector library (at most 4 ulp of double, 2^-27 ulp of float32) where it has the function, else its scalar functions.
#include "reference.h"

#include <immintrin.h>

#include <cmath>
#include <limits>

extern "C" {
#define VECTOR(name) __m256d _ZGVdN4v_##name(__m256d);
VECTOR(exp)
// clang-format off
VECTOR(exp2) VECTOR(expm1) VECTOR(log) VECTOR(log2) VECTOR(log10) VECTOR(log1p) VECTOR(sin) VECTOR(cos) VECTOR(tan) VECTOR(asin) VECTOR(acos) VECTOR(atan) VECTOR(sinh) VECTOR(cosh)
    VECTOR(tanh) VECTOR(asinh) VECTOR(acosh) VECTOR(atanh) VECTOR(erf) VECTOR(erfc)
// clang-format on
#undef VECTOR
}

namespace ingot::ulp {

namespace {

template <class F>
void each_four(const float* x, double* y, int64_t n, F f) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) _mm256_storeu_pd(y + i, f(_mm256_cvtps_pd(_mm_loadu_ps(x + i))));
  if (i == n) return;
  float in[4] = {};
  double out[4];
  for (int64_t k = i; k < n; ++k) in[k - i] = x[k];
  _mm256_storeu_pd(out, f(_mm256_cvtps_pd(_mm_loadu_ps(in))));
  for (int64_t k = i; k < n; ++k) y[k] = out[k - i];
}

template <class F>
void each(const float* x, double* y, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(static_cast<double>(x[i]));
}

__m256d number(double v) { return _mm256_set1_pd(v); }
__m256d over_one_plus_exp(__m256d x, __m256d u) { return x / (number(1) + _ZGVdN4v_exp(u)); }

void sqrt_of(const float* x, double* y, int64_t n) {
  each_four(x, y, n, [](__m256d v) { return _mm256_sqrt_pd(v); });
}
void rsqrt(const float* x, double* y, int64_t n) {
  each_four(x, y, n, [](__m256d v) { return number(1) / _mm256_sqrt_pd(v); });
}
void reciprocal(const float* x, double* y, int64_t n) {
  each_four(x, y, n, [](__m256d v) { return number(1) / v; });
}
void sigmoid(const float* x, double* y, int64_t n) {
  each_four(x, y, n, [](__m256d v) { return over_one_plus_exp(number(1), -v); });
}
void silu(const float* x, double* y, int64_t n) {
  each_four(x, y, n, [](__m256d v) { return over_one_plus_exp(v, -v); });
}
void gelu(const float* x, double* y, int64_t n) {
  each_four(x, y, n, [](__m256d v) { return number(0.5) * v * _ZGVdN4v_erfc(-v * number(M_SQRT1_2)); });
}
void gelu_tanh(const float* x, double* y, int64_t n) {  // 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2 u))
  each_four(x, y, n, [](__m256d v) { return over_one_plus_exp(v, number(-2 * M_SQRT2 * M_2_SQRTPI * 0.5) * (v + number(0.044715) * v * v * v)); });
}
void softplus(const float* x, double* y, int64_t n) {
  each_four(x, y, n, [](__m256d v) {
    const __m256d least = _mm256_min_pd(v, -v), most = _mm256_max_pd(number(0), v);  // the second operand where one is NaN
    return most + _ZGVdN4v_log1p(_ZGVdN4v_exp(least)) + (v - v) * number(0);
  });
  for (int64_t i = 0; i < n; ++i) {
    if (std::isinf(x[i])) y[i] = x[i] > 0 ? static_cast<double>(x[i]) : 0;
  }
}

void lgamma_of(const float* x, double* y, int64_t n) {
  each(x, y, n, [](double v) {
    int sign;
    return ::lgamma_r(v, &sign);
  });
}

// The series of the logarithm's derivative, in long double beyond the recurrence; near 0 and far out a few terms do.
double digamma_at(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (std::isnan(x) || x == -std::numeric_limits<double>::infinity()) return std::numeric_limits<double>::quiet_NaN();
  if (x < 0 && x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
  constexpr long double pi = 3.141592653589793238462643383279502884L;
  if (std::fabs(x) < 0x1p-24) return -1 / x - 0.57721566490153286061 + static_cast<double>(pi * pi / 6) * x;
  if (x > 0x1p24) return std::log(x) - 0.5 / x;
  long double v = x, sum = 0;
  if (x < 0) {
    sum = -pi / std::tan(pi * (v - std::trunc(v)));
    v = 1 - v;
  }
  for (; v < 16; v += 1) sum -= 1 / v;
  const long double z = 1 / (v * v);
  const long double series =
      z * (1.0L / 12 - z * (1.0L / 120 - z * (1.0L / 252 - z * (1.0L / 240 - z * (1.0L / 132 - z * (691.0L / 32760 - z * (1.0L / 12 - z * 3617.0L / 8160)))))));
  return static_cast<double>(sum + std::log(v) - 0.5L / v - series);
}
void digamma(const float* x, double* y, int64_t n) { each(x, y, n, digamma_at); }

double erfinv_at(double y) {
  const double a = std::fabs(y);
  if (std::isnan(y) || a > 1) return std::numeric_limits<double>::quiet_NaN();
  if (a == 1) return std::copysign(std::numeric_limits<double>::infinity(), y);
  constexpr double half_root_pi = 0.88622692545275801365, pi = M_PI;
  if (a < 0x1p-9) {  // the next term is y^7 / 20
    const double z = y * y;
    return half_root_pi * y * (1 + z * (pi / 12 + z * (7 * pi * pi / 480)));
  }
  // A closed form that is good to 2e-3 (S. Winitzki), then Newton's steps; near 1 on the complement, whose digits are not lost.
  const double w = std::log1p(-a * a), t = 2 / (pi * 0.147) + w / 2;
  double x = std::sqrt(std::sqrt(t * t - w / 0.147) - t);
  for (int i = 0; i < 4; ++i) {
    const double error = a < 0.5 ? std::erf(x) - a : (1 - a) - std::erfc(x);
    const double step = error * half_root_pi * std::exp(x * x);
    x -= step / (1 + x * step);
    if (std::fabs(step) < 1e-9 * x) break;
  }
  return std::copysign(x, y);
}
void erfinv(const float* x, double* y, int64_t n) { each(x, y, n, erfinv_at); }

}  // namespace

Reference reference_of(std::string_view name) {
#define VECTOR(function) \
  if (name == #function) return [](const float* x, double* y, int64_t n) { each_four(x, y, n, [](__m256d v) { return _ZGVdN4v_##function(v); }); };
  VECTOR(exp)
// clang-format off
  VECTOR(exp2) VECTOR(expm1) VECTOR(log) VECTOR(log2) VECTOR(log10) VECTOR(log1p) VECTOR(sin) VECTOR(cos) VECTOR(tan) VECTOR(asin) VECTOR(acos) VECTOR(atan) VECTOR(sinh)
      VECTOR(cosh) VECTOR(tanh) VECTOR(asinh) VECTOR(acosh) VECTOR(atanh) VECTOR(erf) VECTOR(erfc)
// clang-format on
#undef VECTOR
#define OWN(text, function) \
  if (name == text) return function;
          OWN("sqrt", sqrt_of) OWN("rsqrt", rsqrt) OWN("reciprocal", reciprocal) OWN("sigmoid", sigmoid) OWN("silu", silu) OWN("gelu", gelu) OWN("gelu_tanh", gelu_tanh)
              OWN("softplus", softplus) OWN("lgamma", lgamma_of) OWN("digamma", digamma) OWN("erfinv", erfinv)
#undef OWN
                  return nullptr;
}

}  // namespace ingot::ulp
