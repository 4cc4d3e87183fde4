template <class M> struct NumberOf { typedef i64 Type; };
template <> struct NumberOf<f16> { typedef f64 Type; };
template <> struct NumberOf<bf16> { typedef f64 Type; };
template <> struct NumberOf<f32> { typedef f64 Type; };
template <> struct NumberOf<f64> { typedef f64 Type; };
template <class M> __device__ __forceinline__ typename NumberOf<M>::Type number(M m) { return (typename NumberOf<M>::Type)value(m); }
template <class M> __device__ __forceinline__ void put_number(M& m, i64 n) { put(m, n); }
__device__ __forceinline__ void put_number(b8& m, i64 n) { m.bits = n != 0; }
__device__ __forceinline__ void put_number(f64& m, f64 n) { m = n; }
__device__ __forceinline__ void put_number(f32& m, f64 n) { m = (f32)n; }
__device__ __forceinline__ void put_number(f16& m, f64 n) { put(m, (f32)n); }
__device__ __forceinline__ void put_number(bf16& m, f64 n) { put(m, (f32)n); }

// Combines numbers like the CPU's kernels; the earlier one is the first argument.
enum Combine { combine_sum, combine_prod, combine_max, combine_min, combine_logsumexp };
template <int Kind>
__device__ __forceinline__ f64 combined(f64 a, f64 b) {
  if (Kind == combine_sum) return a + b;
  if (Kind == combine_prod) return a * b;
  if (a != a || b != b) return a + b;
  if (Kind == combine_max) return a < b ? b : a;
  if (Kind == combine_min) return b < a ? b : a;
  f64 larger = a < b ? b : a, smaller = a < b ? a : b;
  return infinite(larger) ? larger : larger + log1p_called(exp_called(smaller - larger));
}
template <int Kind>
__device__ __forceinline__ i64 combined(i64 a, i64 b) {
  if (Kind == combine_sum) return plus(a, b);
  if (Kind == combine_prod) return times(a, b);
  if (Kind == combine_max) return a < b ? b : a;
  return b < a ? b : a;
}
// The neutral number.
template <int Kind>
__device__ __forceinline__ void neutral(f64& v) {
  v = Kind == combine_sum ? -0.0 : Kind == combine_prod ? 1.0 : of_bits(Kind == combine_min ? 0x7ff0000000000000ull : 0xfff0000000000000ull);
}
template <int Kind>
__device__ __forceinline__ void neutral(i64& v) {
  v = Kind == combine_sum ? 0 : Kind == combine_prod ? 1 : Kind == combine_max ? (i64)0x8000000000000000ull : 0x7fffffffffffffffll;
}
template <int Kind> __device__ __forceinline__ void neutral(i32& v) { v = Kind == combine_sum ? 0 : Kind == combine_prod ? 1 : Kind == combine_max ? (i32)0x80000000u : 0x7fffffff; }
template <int Kind>
__device__ __forceinline__ void neutral(f32& v) {
  f64 wide;
  neutral<Kind>(wide);
  v = (f32)wide;
}
