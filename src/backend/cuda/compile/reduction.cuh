// Reductions: a state, its neutral value, adding an element, and merging two states.
template <class A, class T> struct Sum {
  typedef A State;
  static __device__ __forceinline__ A none() { return A(0); }
  static __device__ __forceinline__ A one(T x, i64) { return A(x); }
  static __device__ __forceinline__ A both(A a, A b) { return a + b; }
};
template <class A, class T> struct Product {
  typedef A State;
  static __device__ __forceinline__ A none() { return A(1); }
  static __device__ __forceinline__ A one(T x, i64) { return A(x); }
  static __device__ __forceinline__ A both(A a, A b) { return a * b; }
};
__device__ __forceinline__ void lowest(f32& v) { v = of_bits(0xff800000u); }
__device__ __forceinline__ void lowest(f64& v) { v = of_bits(0xfff0000000000000ull); }
__device__ __forceinline__ void lowest(int& v) { v = (int)0x80000000u; }
__device__ __forceinline__ void lowest(i64& v) { v = (i64)0x8000000000000000ull; }
__device__ __forceinline__ void highest(f32& v) { v = of_bits(0x7f800000u); }
__device__ __forceinline__ void highest(f64& v) { v = of_bits(0x7ff0000000000000ull); }
__device__ __forceinline__ void highest(int& v) { v = 0x7fffffff; }
__device__ __forceinline__ void highest(i64& v) { v = 0x7fffffffffffffffll; }
template <class A, class T> struct Largest {
  typedef A State;
  static __device__ __forceinline__ A none() { A v; lowest(v); return v; }
  static __device__ __forceinline__ A one(T x, i64) { return A(x); }
  static __device__ __forceinline__ A both(A a, A b) { return max_nan(a, b); }
};
template <class A, class T> struct Smallest {
  typedef A State;
  static __device__ __forceinline__ A none() { A v; highest(v); return v; }
  static __device__ __forceinline__ A one(T x, i64) { return A(x); }
  static __device__ __forceinline__ A both(A a, A b) { return min_nan(a, b); }
};
template <class A, class T> struct Any {
  typedef A State;
  static __device__ __forceinline__ A none() { return 0; }
  static __device__ __forceinline__ A one(T x, i64) { return A(x != T(0)); }
  static __device__ __forceinline__ A both(A a, A b) { return a | b; }
};
template <class A, class T> struct All {
  typedef A State;
  static __device__ __forceinline__ A none() { return 1; }
  static __device__ __forceinline__ A one(T x, i64) { return A(x != T(0)); }
  static __device__ __forceinline__ A both(A a, A b) { return a & b; }
};
// The first of the best elements; NaN is better than any number. index -1: no element yet.
template <class T> struct Place { T best; i64 index; };
// Threads without a row have seen no element; what they read by the place must exist.
template <class T> __device__ __forceinline__ i64 place_of(Place<T> p) { return p.index < 0 ? 0 : p.index; }
template <class A, class T, bool Up> struct Best {
  typedef Place<T> State;
  static __device__ __forceinline__ State none() { State s; s.best = T(0); s.index = -1; return s; }
  static __device__ __forceinline__ State one(T x, i64 index) { State s; s.best = x; s.index = index; return s; }
  static __device__ __forceinline__ State both(State a, State b) {
    bool nan_a = a.best != a.best, nan_b = b.best != b.best;
    bool better = nan_b ? !nan_a : !nan_a && (Up ? b.best > a.best : b.best < a.best);
    bool same = nan_b ? nan_a : b.best == a.best;
    bool take = b.index >= 0 && (a.index < 0 || better || (same && b.index < a.index));
    return take ? b : a;
  }
};

template <class T> __device__ __forceinline__ T exchanged(T v, int distance) { return __shfl_xor_sync(0xffffffffu, v, distance); }
template <class T>
__device__ __forceinline__ Place<T> exchanged(Place<T> v, int distance) {
  Place<T> r;
  r.best = __shfl_xor_sync(0xffffffffu, v.best, distance);
  r.index = __shfl_xor_sync(0xffffffffu, v.index, distance);
  return r;
}
// Every lane of a group of Lanes adjacent lanes gets the group's result, always computed in the same order.
template <class R, int Lanes>
__device__ __forceinline__ typename R::State across_lanes(typename R::State a) {
#pragma unroll
  for (int d = Lanes / 2; d > 0; d /= 2) a = R::both(a, exchanged(a, d));
  return a;
}
// Id: number of the reduction in the kernel. Each has its own shared memory, so that one barrier is enough.
template <class R, int Id>
__device__ __forceinline__ typename R::State across_block(typename R::State a) {
  __shared__ typename R::State part[32];
  a = across_lanes<R, 32>(a);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = a;
  __syncthreads();
  a = threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : R::none();
  return across_lanes<R, 32>(a);
}
// Adjacent rows: threads t, t + 32, ... share a row.
template <class R, int Id, int Lanes>
__device__ __forceinline__ typename R::State across_column(typename R::State a) {
  __shared__ typename R::State part[Lanes][32];
  part[threadIdx.x / 32][threadIdx.x % 32] = a;
  __syncthreads();
  a = part[0][threadIdx.x % 32];
#pragma unroll
  for (int k = 1; k < Lanes; ++k) a = R::both(a, part[k][threadIdx.x % 32]);
  return a;
}
