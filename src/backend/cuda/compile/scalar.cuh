// Scalar functions that CUDA lacks or defines differently.
template <class T> __device__ __forceinline__ T relu_of(T x) { return x < T(0) ? T(0) : x; }
template <class T> __device__ __forceinline__ T sign_of(T x) { return T((x > T(0)) - (x < T(0))); }
template <class T> __device__ __forceinline__ T min_nan(T a, T b) { return a != a || a < b ? a : b; }
template <class T> __device__ __forceinline__ T max_nan(T a, T b) { return a != a || a > b ? a : b; }
#if __CUDA_ARCH__ >= 800
template <> __device__ __forceinline__ f32 min_nan<f32>(f32 a, f32 b) { f32 r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
template <> __device__ __forceinline__ f32 max_nan<f32>(f32 a, f32 b) { f32 r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
template <> __device__ __forceinline__ f32 relu_of<f32>(f32 x) { return max_nan(x, 0.0f); }
#endif
__device__ __forceinline__ bool negative(f32 x) { return __float_as_int(x) < 0; }
__device__ __forceinline__ bool negative(f64 x) { return __double_as_longlong(x) < 0; }
__device__ __forceinline__ bool infinite(f32 x) { return (__float_as_int(x) & 0x7fffffff) == 0x7f800000; }
__device__ __forceinline__ bool infinite(f64 x) { return (__double_as_longlong(x) & 0x7fffffffffffffffll) == 0x7ff0000000000000ll; }
// Long functions are called: inlined, they would be repeated for each element of a thread.
#define CALLED(name) \
  __device__ __noinline__ f32 name##_called(f32 x) { return name##f(x); } \
  __device__ __noinline__ f64 name##_called(f64 x) { return name(x); }
// CUDA's versions have errors of 2 to 4.5 ulp in f32, which is too much.
#define ROUNDED(name) \
  __device__ __noinline__ f32 name##_called(f32 x) { return (f32)name((f64)x); } \
  __device__ __noinline__ f64 name##_called(f64 x) { return name(x); }
#define CALLED2(name) \
  __device__ __noinline__ f32 name##_called(f32 x, f32 y) { return name##f(x, y); } \
  __device__ __noinline__ f64 name##_called(f64 x, f64 y) { return name(x, y); }
CALLED(sin) CALLED(cos) CALLED(asin) CALLED(acos) CALLED(atan) CALLED(expm1) CALLED(log1p)
ROUNDED(tan) ROUNDED(sinh) ROUNDED(cosh) ROUNDED(asinh) ROUNDED(acosh) ROUNDED(atanh) ROUNDED(erfc) ROUNDED(log10)
// 1 / x for x around 1 to 1e6, with 45 bits.
__device__ __forceinline__ f64 short_inverse(f64 x) {
  const f64 r = (f64)(1.0f / (f32)x);
  return r * fma(-x, r, 2.0);
}
// As in backend/cpu/kernels/fused/run/block_wide.inc: erfinv(y) / y is a function of w = -log(1 - y^2), from 0 to 16.7 for floats. An error of 1e-9 in w does not matter.
__device__ __noinline__ f32 erfinv_called(f32 x) {
  const f64 y = x, t = (1.0 - y) * (1.0 + y);
  if (!(t > 0.0)) return t == 0.0 ? x * of_bits(0x7f800000u) : of_bits(0x7fc00000u);
  const u64 bits = (u64)__double_as_longlong(t), mantissa = bits & 0xfffffffffffffull, half = mantissa > 0x6a09e667f3bcdull ? 1 : 0;  // above the square root of 2
  const f64 m = of_bits((1023 - half) << 52 | mantissa), s = (m - 1.0) * short_inverse(m + 1.0), z = s * s;
  const f64 series = fma(fma(fma(fma(z, 1.0 / 9.0, 1.0 / 7.0), z, 0.2), z, 1.0 / 3.0), z, 1.0);
  const f64 w = -fma((f64)((int)(bits >> 52) - 1023 + (int)half), 0.6931471805599453, 2.0 * s * series);
  f64 p = fma(-5.789657652415309e-07, w, 1.603211949142202e-05), q = fma(-3.434005070782605e-08, w, -2.2568825528552256e-06);
  p = fma(p, w, 0.0005168491857172816);
  q = fma(q, w, 0.00016408195834426417);
  p = fma(p, w, 0.006717658181036714);
  q = fma(q, w, 0.0012335105809868551);
  p = fma(p, w, 0.05377148972123261);
  q = fma(q, w, 0.031176022699502176);
  p = fma(p, w, 0.2877550924788245);
  q = fma(q, w, 0.0628974709226326);
  p = fma(p, w, 0.8862269254293841);
  q = fma(q, w, 1.0);
  return (f32)(y * p * short_inverse(q));
}
__device__ __noinline__ f64 erfinv_called(f64 x) { return erfinv(x); }
CALLED(exp) CALLED(log) CALLED(log2) CALLED(tanh) CALLED(erf)
CALLED2(pow) CALLED2(atan2) CALLED2(hypot) CALLED2(fmod) CALLED2(nextafter)
__device__ __forceinline__ f32 modulo(f32 a, f32 b) { f32 r = fmod_called(a, b); return r != 0 && (b < 0) != (r < 0) ? r + b : r; }
__device__ __forceinline__ f64 modulo(f64 a, f64 b) { f64 r = fmod_called(a, b); return r != 0 && (b < 0) != (r < 0) ? r + b : r; }
template <class T>
__device__ __noinline__ T floor_divided(T a, T b) {
  if (b == T(0)) return a / b;
  T r = fmod_called(a, b), q = (a - r) / b;
  if (r != T(0) && (b < T(0)) != (r < T(0))) q -= T(1);
  if (q == T(0)) return copysign(T(0), a / b);
  T f = floor(q);
  return q - f > T(0.5) ? f + T(1) : f;
}
__device__ __forceinline__ f32 over_sum(f32 x, f32 sum, f32 inverse) { return sum >= 1.0f ? x * inverse : x / sum; }
// exp(f) = 1 + f + f^2 p(f) for |f| <= ln(2) / 2, and x = n ln(2) + f: adding 1.5 * 2^23 rounds, and leaves n in the low bits.
__device__ __forceinline__ f32 exp_fraction(f32 x, f32 n) {
  f32 f = fmaf(n, -0.693359375f, x);
  f = fmaf(n, 2.12194440e-4f, f);
  f32 p = fmaf(f, 1.3814540580e-03f, 8.3687454462e-03f);
  p = fmaf(p, f, 4.1668388993e-02f);
  p = fmaf(p, f, 1.6666521132e-01f);
  p = fmaf(p, f, 4.9999994040e-01f);
  return fmaf(p, f * f, f);
}
// x / (1 + exp(u)), as in backend/cpu/kernels/run/functions.inc: 2^-28 (1 + exp(u)) is finite as long as its inverse is not 0.
__device__ __forceinline__ f32 over_one_plus_exp(f32 x, f32 u) {
  u = u < -66.0f ? -66.0f : u;
  f32 zero = 12582912.0f + 99.0f, t = fmaf(u > 106.0f ? 106.0f : u, 1.44269504f, zero), scale = __int_as_float(__float_as_int(t) << 23);
  f32 s = fmaf(exp_fraction(u, t - zero), scale, 3.7252903e-09f) + scale;
  return x < 6.3382530e+29f ? x / s * 3.7252903e-09f : x;
}
__device__ __forceinline__ f32 power_of_2(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// If results are stored as half types, two instructions of the special function unit are enough: an exponential and a reciprocal with errors of a few ulp. If
// exp(u) overflows, the quotient is 0, like x / (1 + exp(u)) in float32. Without .ftz each would scale subnormal numbers, by four more instructions: a subnormal
// exponential vanishes compared with 1, and of subnormal quotients only results below 1e-36 are made.
__device__ __forceinline__ f32 over_one_plus_exp_for_half(f32 x, f32 u) {
  f32 r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + power_of_2(u * 1.44269504f)));
  return x * r;
}
// exp for x <= 0.
__device__ __forceinline__ f32 exp_falling(f32 x) {
  x = x < -104.0f ? -104.0f : x;
  f32 zero = 12582912.0f + 151.0f, t = fmaf(x, 1.44269504f, zero), scale = __int_as_float(__float_as_int(t) << 23);
  return fmaf(exp_fraction(x, t - zero), scale, scale) * 5.9604645e-08f;
}
// CUDA's version has an error of 2.1 ulp.
__device__ __forceinline__ f32 exp2_of(f32 x) {
  x = x < -151.0f ? -151.0f : x > 129.0f ? 129.0f : x;
  f32 n = rintf(x);
  int k = (int)n, half = k >> 1;  // 2^n as two factors, for subnormal and very large results
  f32 scale = __int_as_float((half + 127) << 23);
  return fmaf(exp_fraction((x - n) * 0.69314718f, 0.0f), scale, scale) * __int_as_float((k - half + 127) << 23);
}
__device__ __forceinline__ f64 exp2_of(f64 x) { return exp2(x); }
__device__ __forceinline__ f32 sigmoid_of(f32 x) { return over_one_plus_exp(1.0f, -x); }
__device__ __forceinline__ f64 sigmoid_of(f64 x) { return 1.0 / (1.0 + exp_called(-x)); }
__device__ __forceinline__ f32 silu_of(f32 x) { return over_one_plus_exp(x, -x); }
__device__ __forceinline__ f32 sigmoid_for_half(f32 x) { return over_one_plus_exp_for_half(1.0f, -x); }
__device__ __forceinline__ f32 silu_for_half(f32 x) { return over_one_plus_exp_for_half(x, -x); }
__device__ __forceinline__ f64 silu_of(f64 x) { return x / (1.0 + exp_called(-x)); }
__device__ __forceinline__ f32 gelu_of(f32 x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
__device__ __forceinline__ f64 gelu_of(f64 x) { return 0.5 * x * (1.0 + erf(x * 0.70710678118654752440)); }
// 0.5 (1 + tanh(u)) is sigmoid(2 u).
__device__ __forceinline__ f32 gelu_tanh_of(f32 x) { return over_one_plus_exp(x, (x * x * 0.044715f + 1.0f) * (x * -1.5957691216057308f)); }
__device__ __forceinline__ f32 gelu_tanh_for_half(f32 x) { return over_one_plus_exp_for_half(x, (x * x * 0.044715f + 1.0f) * (x * -1.5957691216057308f)); }
__device__ __forceinline__ f64 gelu_tanh_of(f64 x) { return x / (1.0 + exp_called((x * x * 0.044715 + 1.0) * (x * -1.5957691216057308))); }
__device__ __forceinline__ f32 softplus_of(f32 x) { return x != x ? x : fmaxf(x, 0.0f) + log1p_called(exp_falling(-fabsf(x))); }
__device__ __forceinline__ f64 softplus_of(f64 x) { return x != x ? x : fmax(x, 0.0) + log1p_called(exp_called(-fabs(x))); }
// These have zeros other than 0, near which a computation in f32 would lose accuracy.
__device__ __noinline__ f64 digamma_of(f64 x) {
  if (x == 0) return copysign(of_bits(0x7ff0000000000000ull), -x);
  f64 reflected = 0;
  if (x < 0) {
    if (x == floor(x)) return of_bits(0x7ff8000000000000ull);
    reflected = 3.14159265358979323846 / tan(3.14159265358979323846 * (x - trunc(x)));
    x = 1 - x;
  }
  f64 shift = 0;
  for (; x < 12; ++x) shift -= 1 / x;
  f64 z = 1 / (x * x);
  f64 series = z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return shift + log(x) - 0.5 / x - series - reflected;
}
__device__ __noinline__ f64 lgamma_of(f64 x) { return lgamma(x); }

// Integers: wrapping arithmetic is done unsigned.
__device__ __forceinline__ int plus(int a, int b) { return (int)((u32)a + (u32)b); }
__device__ __forceinline__ i64 plus(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
__device__ __forceinline__ int minus(int a, int b) { return (int)((u32)a - (u32)b); }
__device__ __forceinline__ i64 minus(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
__device__ __forceinline__ int times(int a, int b) { return (int)((u32)a * (u32)b); }
__device__ __forceinline__ i64 times(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
template <class T>
__device__ __forceinline__ bool divisible(T b, u64* status) {
  if (b != 0) return true;
  report(status, 2, 0, 0);
  return false;
}
template <class T> __device__ __forceinline__ T quotient(T a, T b, u64* status) { return !divisible(b, status) ? T(0) : b == T(-1) ? minus(T(0), a) : a / b; }
template <class T> __device__ __forceinline__ T remainder_of(T a, T b, u64* status) { return !divisible(b, status) || b == T(-1) ? T(0) : a % b; }
template <class T>
__device__ __forceinline__ T floor_quotient(T a, T b, u64* status) {
  if (!divisible(b, status)) return T(0);
  if (b == T(-1)) return minus(T(0), a);
  T q = a / b;
  return a - q * b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
template <class T>
__device__ __forceinline__ T modulo_of(T a, T b, u64* status) {
  T r = remainder_of(a, b, status);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class T>
__device__ __noinline__ T power_of(T base, T exponent) {
  if (exponent < 0) return base == 1 ? T(1) : base == -1 ? (exponent % 2 == 0 ? T(1) : T(-1)) : T(0);
  T r = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) r = times(r, base);
    base = times(base, base);
  }
  return r;
}
__device__ __noinline__ i64 divisor_of(i64 a, i64 b) {
  u64 x = a < 0 ? 0ull - (u64)a : (u64)a, y = b < 0 ? 0ull - (u64)b : (u64)b;
  while (y != 0) {
    u64 r = x % y;
    x = y;
    y = r;
  }
  return (i64)x;
}
// Shifts by the width or more, or by a negative count: 0, or -1 for a negative number shifted right.
template <int Bits, class T> __device__ __forceinline__ T left(T a, T b) { return b < 0 || b >= Bits ? T(0) : T((u64)a << (int)b); }
template <int Bits, class T> __device__ __forceinline__ T right(T a, T b) { return b < 0 || b >= Bits ? (a < 0 ? T(-1) : T(0)) : T(a >> (int)b); }
// Truncation; values that do not fit give the minimum, as on x86.
__device__ __forceinline__ int truncated_to_32_bits(f64 v) { return v >= -2147483648.0 && v < 2147483648.0 ? (int)v : (int)0x80000000u; }
__device__ __forceinline__ int truncated_to_32_bits(f32 v) { return v >= -2147483648.0f && v < 2147483648.0f ? (int)v : (int)0x80000000u; }
__device__ __forceinline__ i64 truncated(f64 v) { return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? (i64)v : (i64)0x8000000000000000ull; }
__device__ __forceinline__ i64 truncated(f32 v) { return v >= -9223372036854775808.0f && v < 9223372036854775808.0f ? (i64)v : (i64)0x8000000000000000ull; }
