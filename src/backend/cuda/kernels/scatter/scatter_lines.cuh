// Sums of floats whose destinations form lines: a block has some lines, and all that is added to them, in shared memory. Comes after scatter_at_once.cuh.

// What has been added to a destination, as integers: in units, and for doubles in units of a unit besides.
template <class M>
struct LineSums {
  typedef f32 T;
  i64 units[scatter_line_places];
  __device__ __forceinline__ void clear(int place) { units[place] = 0; }
  __device__ __forceinline__ void add(const ScatterAtOnceParameters& p, int place, i32 largest, M m) {
    const i64 x = units_of(p, largest, value(m));
    if (x != 0) combine_shared<combine_sum>(units + place, x);
  }
  __device__ __forceinline__ f64 total(const ScatterAtOnceParameters& p, int place, i32 largest) const { return total_of_units(p, largest, units[place]); }
};
__device__ __forceinline__ i32 exponent_of(f64 x) {
  const i32 e = (i32)((u64)__double_as_longlong(x) >> 52 & 2047);
  return x == 0.0 ? 0 : e == 0 ? 1 : e;
}
// x times 2^n, for any n that the difference of two exponents can be.
__device__ __forceinline__ f64 scaled(f64 x, int n) {
  const int half = n / 2;
  return x * power_of_two(half) * power_of_two(n - half);
}
template <>
struct LineSums<f64> {
  typedef f64 T;
  i64 units[scatter_line_places], rests[scatter_line_places];
  __device__ __forceinline__ void clear(int place) { units[place] = rests[place] = 0; }
  __device__ __forceinline__ void add(const ScatterAtOnceParameters& p, int place, i32 largest, f64 x) {
    if (x == 0.0) return;
    if (largest == 2047) {
      if (exponent_of(x) == 2047) combine_shared<combine_sum>(units + place, special_units(x > 0.0 || x != x, x < 0.0 || x != x));
      return;
    }
    // Below 2^unit_bits; what its integer leaves is exact.
    const f64 wide = scaled(x, p.unit_bits + 1022 - largest);
    const i64 unit = __double2ll_rn(wide), rest = __double2ll_rn((wide - (f64)unit) * power_of_two(p.unit_bits));
    if (unit != 0) combine_shared<combine_sum>(units + place, unit);
    if (rest != 0) combine_shared<combine_sum>(rests + place, rest);
  }
  __device__ __forceinline__ f64 total(const ScatterAtOnceParameters& p, int place, i32 largest) const {
    if (largest == 2047) return special_total(units[place]);
    const f64 high = (f64)(units[place] >> 32) * 4294967296.0, low = (f64)(units[place] & 0xffffffffll) + (f64)rests[place] * power_of_two(-p.unit_bits);
    return scaled(high + low, largest - 1022 - p.unit_bits);
  }
};
// Some updates of a thread, and the destinations of the block to which they belong.
template <class M, int Indices>
struct LineUpdates {
  static constexpr int together = 4, step = scatter_at_once_threads;
  M m[together];
  int place[together];  // -1: none
  __device__ __forceinline__ void read(const ScatterAtOnceParameters& p, i64 n, i64 last, i64 first_place) {
    FoundUpdate<Indices> found[together];
#pragma unroll
    for (int k = 0; k < together; ++k) {
      if (n + k * step >= last) continue;
      found[k] = read_indices<Indices>(p, n + k * step);
      m[k] = ((const M*)p.updates)[found[k].from];
    }
#pragma unroll
    for (int k = 0; k < together; ++k) place[k] = n + k * step < last && use_indices(p, found[k]) ? (int)(found[k].to - first_place) : -1;
  }
};
template <class M, int Indices>
__device__ __forceinline__ void scatter_lines(const ScatterAtOnceParameters& p) {
  typedef typename LineSums<M>::T T;
  __shared__ i32 exponents[scatter_line_places];
  __shared__ LineSums<M> sums;
  const i64 first_place = (i64)blockIdx.x * p.block_places, first = (i64)blockIdx.x * p.block_updates;
  const int places = (int)(first_place + p.block_places < p.places ? p.block_places : p.places - first_place);
  const i64 last = first + p.block_updates < p.count ? first + p.block_updates : p.count;
  for (int k = threadIdx.x; k < places; k += scatter_at_once_threads) {
    exponents[k] = 0;
    sums.clear(k);
  }
  __syncthreads();
  typedef LineUpdates<M, Indices> Updates;
  Updates updates;
  constexpr int at_once = Updates::together * Updates::step;
  const bool held = last - first <= at_once;  // all updates are read once
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    for (i64 n = first + threadIdx.x; n < last; n += at_once) {
      if (pass == 0 || !held) updates.read(p, n, last, first_place);
#pragma unroll
      for (int k = 0; k < Updates::together; ++k) {
        const int place = updates.place[k];
        if (place < 0) continue;
        if (pass == 0) atomicMax(exponents + place, exponent_of((T)value(updates.m[k]))); else sums.add(p, place, exponents[place], updates.m[k]);
      }
    }
    __syncthreads();
  }
  for (int k = threadIdx.x; k < places; k += scatter_at_once_threads) {
    if (exponents[k] == 0) continue;
    i64 to[1] = {0};
    walk(p.place_axes, first_place + k, to);
    M* const out = (M*)p.out + to[0];
    put_number(*out, number(*out) + sums.total(p, k, exponents[k]));
  }
}
