// Where an update is, and its destination without what the indices add, which are read and not looked at yet: their errors would keep the next read waiting.
template <int Indices>
struct FoundUpdate {
  i64 from, to, index[Indices];
};
template <int Indices, class Offset>
__device__ __forceinline__ FoundUpdate<Indices> read_indices_as(const ScatterAtOnceParameters& p, Offset n) {
  Offset at[2 + Indices];
#pragma unroll
  for (int k = 0; k < 2 + Indices; ++k) at[k] = 0;
  walk_first<2 + Indices>(p.axes, n, at);
  FoundUpdate<Indices> out;
  out.from = at[0];
  out.to = at[1];
#pragma unroll
  for (int k = 0; k < Indices; ++k) out.index[k] = ((const i64*)p.index[k])[at[2 + k]];
  return out;
}
template <int Indices>
__device__ __forceinline__ FoundUpdate<Indices> read_indices(const ScatterAtOnceParameters& p, i64 n) {
  return p.narrow ? read_indices_as<Indices, i32>(p, (i32)n) : read_indices_as<Indices, i64>(p, n);
}
// Adds what the indices choose. False, and reported, if one is out of range.
template <int Indices>
__device__ __forceinline__ bool use_indices(const ScatterAtOnceParameters& p, FoundUpdate<Indices>& update) {
#pragma unroll
  for (int k = 0; k < Indices; ++k) {
    const i64 index = update.index[k], there = p.wrap && index < 0 ? index + p.extent[k] : index;
    if ((u64)there >= (u64)p.extent[k]) {
      report((u64*)p.status, 1, index, p.extent[k]);
      return false;
    }
    update.to += there * p.step[k];
  }
  return true;
}
template <int Indices>
__device__ __forceinline__ bool find(const ScatterAtOnceParameters& p, i64 n, i64& from, i64& to) {
  FoundUpdate<Indices> update = read_indices<Indices>(p, n);
  if (!use_indices(p, update)) return false;
  from = update.from;
  to = update.to;
  return true;
}

// Combining that gives the same whatever the order.
template <int Kind> __device__ __forceinline__ void combine_at_once(i32* to, i32 x) {
  if (Kind == combine_sum) atomicAdd((u32*)to, (u32)x);
  else if (Kind == combine_min) atomicMin(to, x);
  else atomicMax(to, x);
}
template <int Kind> __device__ __forceinline__ void combine_at_once(i64* to, i64 x) {
  if (Kind == combine_sum) atomicAdd((u64*)to, (u64)x);
  else if (Kind == combine_min) atomicMin(to, x);
  else atomicMax(to, x);
}
__device__ __forceinline__ u32 bits_of_float(f32 x) { return (u32)__float_as_int(x); }
__device__ __forceinline__ u64 bits_of_float(f64 x) { return (u64)__double_as_longlong(x); }
// Floats have one order, in which -0 comes before 0. NaN wins; the first of a result's own stays, others are all the same.
template <int Kind, class Bits, class F>
__device__ __forceinline__ void replace_if_better(F* to, F x) {
  if (x != x) x = (F)of_bits(0x7fc00000u);
  const Bits mine = bits_of_float(x);
  for (Bits old = *(volatile Bits*)to;;) {
    const F now = of_bits(old);
    const bool better = now == now && (x != x || (Kind == combine_min ? x < now || (x == now && mine > old) : now < x || (x == now && mine < old)));
    if (!better) return;
    const Bits found = atomicCAS((Bits*)to, old, mine);
    if (found == old) return;
    old = found;
  }
}
template <int Kind> __device__ __forceinline__ void combine_at_once(f32* to, f32 x) { replace_if_better<Kind, u32>(to, x); }
template <int Kind> __device__ __forceinline__ void combine_at_once(f64* to, f64 x) { replace_if_better<Kind, u64>(to, x); }
// In shared memory, which adds 32 bits in one instruction.
template <int Kind, class A>
__device__ __forceinline__ void combine_shared(A* to, A x) {
  if constexpr (Kind == combine_sum && sizeof(A) == 8) {
    u32* const half = (u32*)to;
    const u32 low = (u32)x, before = atomicAdd(half, low), high = (u32)((u64)x >> 32) + (before + low < before);
    if (high != 0) atomicAdd(half + 1, high);
  } else {
    combine_at_once<Kind>(to, x);
  }
}

// What is combined: the updates themselves.
template <class M>
struct Itself {
  typedef M Type;
  static __device__ __forceinline__ M* all(const ScatterAtOnceParameters& p) { return (M*)p.out; }
  static __device__ __forceinline__ M of(const ScatterAtOnceParameters&, i64, M m) { return m; }
};
// A float's exponent, 255 for infinity and NaN; 0 for a zero. The largest one of a destination gives the unit in which its updates are added.
__device__ __forceinline__ i32 exponent_of(f32 x) {
  const i32 e = __float_as_int(x) >> 23 & 255;
  return x == 0.0f ? 0 : e == 0 ? 1 : e;
}
template <class M>
struct Exponent {
  typedef i32 Type;
  static __device__ __forceinline__ i32* all(const ScatterAtOnceParameters& p) { return (i32*)p.exponents; }
  static __device__ __forceinline__ i32 of(const ScatterAtOnceParameters&, i64, M m) { return exponent_of(value(m)); }
};
__device__ __forceinline__ f64 power_of_two(int n) { return of_bits((u64)(1023 + n) << 52); }
// Beside an infinity or NaN only those count: positive ones in the low 31 bits, negative ones above, NaN in both.
__device__ __forceinline__ i64 special_units(bool positive, bool negative) { return (positive ? 1ll : 0ll) + (negative ? 1ll << 31 : 0ll); }
__device__ __forceinline__ f64 special_total(i64 units) {
  const f64 infinity = of_bits(0x7ff0000000000000ull);
  return ((units & 0x7fffffff) != 0 ? infinity : 0.0) - (units >> 31 != 0 ? infinity : 0.0);
}
// A float as a multiple of the unit that the largest exponent gives, and a sum of them.
__device__ __forceinline__ i64 units_of(const ScatterAtOnceParameters& p, i32 largest, f32 x) {
  if (x == 0.0f) return 0;
  if (largest < 255) return __double2ll_rn((f64)x * power_of_two(p.unit_bits + 126 - largest));
  return exponent_of(x) < 255 ? 0 : special_units(x > 0.0f || x != x, x < 0.0f || x != x);
}
__device__ __forceinline__ f64 total_of_units(const ScatterAtOnceParameters& p, i32 largest, i64 units) {
  return largest < 255 ? (f64)units * power_of_two(largest - 126 - p.unit_bits) : special_total(units);
}
template <class M>
struct Units {
  typedef i64 Type;
  static __device__ __forceinline__ i64* all(const ScatterAtOnceParameters& p) { return (i64*)p.sums; }
  static __device__ __forceinline__ i64 of(const ScatterAtOnceParameters& p, i64 place, M m) { return units_of(p, ((const i32*)p.exponents)[place], value(m)); }
};

template <class What, class M, int Kind, int Indices>
__device__ __forceinline__ void scatter_at_once(const ScatterAtOnceParameters& p) {
  const i64 n = (i64)blockIdx.x * scatter_at_once_threads + threadIdx.x;
  i64 from, to;
  if (n >= p.count || !find<Indices>(p, n, from, to)) return;
  const typename What::Type x = What::of(p, to, ((const M*)p.updates)[from]);
  if (Kind != combine_sum || x != 0) combine_at_once<Kind>(What::all(p) + to, x);
}
// Few destinations: each block combines some updates in shared memory, and then these.
template <class What, class M, int Kind, int Indices>
__device__ __forceinline__ void scatter_in_shared_memory(const ScatterAtOnceParameters& p) {
  typedef typename What::Type A;
  __shared__ A mine[scatter_shared_places];
  A none;
  neutral<Kind>(none);
  for (int k = threadIdx.x; k < p.places; k += scatter_shared_threads) mine[k] = none;
  __syncthreads();
  const i64 step = (i64)gridDim.x * scatter_shared_threads;
  constexpr int together = 4;  // loads under way
  for (i64 n = (i64)blockIdx.x * scatter_shared_threads + threadIdx.x; n < p.count; n += together * step) {
    FoundUpdate<Indices> found[together];
    M update[together];
#pragma unroll
    for (int k = 0; k < together; ++k) {
      if (n + k * step >= p.count) continue;
      found[k] = read_indices<Indices>(p, n + k * step);
      update[k] = ((const M*)p.updates)[found[k].from];
    }
#pragma unroll
    for (int k = 0; k < together; ++k) {
      if (n + k * step >= p.count || !use_indices(p, found[k])) continue;
      const A x = What::of(p, found[k].to, update[k]);
      if (Kind != combine_sum || x != 0) combine_shared<Kind>(mine + found[k].to, x);
    }
  }
  __syncthreads();
  for (int k = threadIdx.x; k < p.places; k += scatter_shared_threads) {
    const A x = mine[k];
    if (x == none && Kind == combine_sum) continue;
    i64 to[1] = {0};
    walk(p.place_axes, k, to);
    combine_at_once<Kind>(What::all(p) + to[0], x);
  }
}
__device__ __forceinline__ void clear_sums(const ScatterAtOnceParameters& p) {
  const i64 n = (i64)blockIdx.x * scatter_at_once_threads + threadIdx.x;
  if (n >= p.places) return;
  ((i32*)p.exponents)[n] = 0;
  ((i64*)p.sums)[n] = 0;
}
template <class M>
__device__ __forceinline__ void finish_sums(const ScatterAtOnceParameters& p) {
  const i64 n = (i64)blockIdx.x * scatter_at_once_threads + threadIdx.x;
  if (n >= p.places) return;
  const i32 largest = ((const i32*)p.exponents)[n];
  if (largest == 0) return;
  i64 to[1] = {0};
  walk(p.place_axes, n, to);
  M* const out = (M*)p.out + to[0];
  put_number(*out, number(*out) + total_of_units(p, largest, ((const i64*)p.sums)[n]));
}
