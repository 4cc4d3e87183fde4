// Sums of n elements, and their squared differences from their mean.
struct MomentsPart {
  f32 n, sum, squares;
};
__device__ __forceinline__ MomentsPart put_together(const MomentsPart& a, const MomentsPart& b) {
  if (a.n == 0.0f) return b;
  if (b.n == 0.0f) return a;
  const f32 apart = b.sum / b.n - a.sum / a.n, n = a.n + b.n;
  return {n, a.sum + b.sum, a.squares + b.squares + apart * apart * (a.n / n * b.n)};
}
// One element after another, around the first of them: the mean is near it as the squares are small, wherever all lie.
struct MomentsSum {
  f32 n = 0.0f, pivot = 0.0f, sum = 0.0f, apart = 0.0f, squares = 0.0f;
  __device__ __forceinline__ void add(f32 x) {
    if (n == 0.0f) pivot = x;
    const f32 d = x - pivot;
    n += 1.0f;
    sum += x;
    apart += d;
    squares = fmaf(d, d, squares);
  }
  __device__ __forceinline__ MomentsPart part() const {
    if (n == 0.0f) return {0.0f, 0.0f, 0.0f};
    const f32 s = squares - apart * apart / n;
    return {n, sum, s < 0.0f ? 0.0f : s};
  }
};
__device__ __forceinline__ MomentsPart from_lane(const MomentsPart& a, int lanes) {
  return {__shfl_xor_sync(0xffffffffu, a.n, lanes), __shfl_xor_sync(0xffffffffu, a.sum, lanes), __shfl_xor_sync(0xffffffffu, a.squares, lanes)};
}
// Of all threads of a block, in thread 0.
__device__ __forceinline__ MomentsPart moments_of_block(MomentsPart a) {
  __shared__ MomentsPart parts[moments_threads / 32];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) a = put_together(a, from_lane(a, lanes));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = a;
  __syncthreads();
  MomentsPart all = {0.0f, 0.0f, 0.0f};
  if (threadIdx.x == 0) {
#pragma unroll
    for (int w = 0; w < moments_threads / 32; ++w) all = put_together(all, parts[w]);
  }
  return all;
}
__device__ __forceinline__ void put_moments(const MomentsCudaParameters& p, i64 at, const MomentsPart& a) {
  f32* const to = (f32*)p.parts + 2 * at;
  to[0] = a.sum;
  to[1] = a.squares;
}
// Some places by 32 * V columns: lanes side by side, warps place by place.
template <class M, int V>
__device__ __forceinline__ void moments_of_columns(const MomentsCudaParameters& p) {
  constexpr int warps = moments_threads / 32;
  __shared__ MomentsPart parts[warps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const i64 tile = blockIdx.x % p.tiles, rest = blockIdx.x / p.tiles, chunk = rest % p.chunks, outer = rest / p.chunks;
  const i64 column = (tile * 32 + lane) * V, first = chunk * p.chunk;
  const i64 last = first + p.chunk < p.length ? first + p.chunk : p.length;
  i64 at[1] = {0};
  walk(p.from, outer, at);
  const M* const from = (const M*)p.in + at[0] + column;
  MomentsSum sums;
  if (column < p.columns) {
    for (i64 i = first + warp; i < last; i += 4 * warps) {
      alignas(16) M x[4][V];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (i + k * warps < last) read<V>(x[k], from + (i + k * warps) * p.step);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (i + k * warps >= last) continue;
#pragma unroll
        for (int v = 0; v < V; ++v) sums.add(value(x[k][v]));
      }
    }
  }
  parts[warp][lane] = sums.part();
  __syncthreads();
  if (warp != 0 || column >= p.columns) return;
  MomentsPart all = parts[0][lane];
#pragma unroll
  for (int w = 1; w < warps; ++w) all = put_together(all, parts[w][lane]);
  put_moments(p, (outer * p.chunks + chunk) * (p.columns / V) + column / V, all);
}
// Some elements of a row.
template <class M>
__device__ __forceinline__ void moments_of_rows(const MomentsCudaParameters& p) {
  const i64 chunk = blockIdx.x % p.chunks, row = blockIdx.x / p.chunks, first = chunk * p.chunk;
  const i64 last = first + p.chunk < p.length ? first + p.chunk : p.length;
  i64 at[1] = {0};
  walk(p.from, row, at);
  const M* const from = (const M*)p.in + at[0];
  auto offset = [&](i64 e) {
    i64 of[1] = {0};
    walk(p.elements, e, of);
    return of[0];
  };
  MomentsSum sums;
  for (i64 e = first + threadIdx.x; e < last; e += 4 * moments_threads) {
    f32 x[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (e + k * moments_threads < last) x[k] = value(from[offset(e + k * moments_threads)]);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (e + k * moments_threads < last) sums.add(x[k]);
    }
  }
  const MomentsPart all = moments_of_block(sums.part());
  if (threadIdx.x == 0) put_moments(p, row * p.chunks + chunk, all);
}
__device__ __forceinline__ void merge_moments(const MomentsCudaParameters& p) {
  const i64 row = blockIdx.x, outer = row / p.groups, group = row % p.groups, width = p.groups * p.own;
  const f32* const from = (const f32*)p.parts + 2 * (outer * p.chunks * width + group * p.own);
  MomentsPart all = {0.0f, 0.0f, 0.0f};
  for (i64 e = threadIdx.x; e < p.chunks * p.own; e += moments_threads) {
    const i64 chunk = e / p.own, left = p.length - chunk * p.chunk;
    const f32* const part = from + 2 * (chunk * width + e % p.own);
    all = put_together(all, {(f32)((left < p.chunk ? left : p.chunk) * p.unit), part[0], part[1]});
  }
  all = moments_of_block(all);
  if (threadIdx.x != 0) return;
  i64 at[2] = {0, 0};
  walk(p.results, row, at);
  ((f32*)p.sums)[at[0]] = all.sum;
  ((f32*)p.squares)[at[1]] = all.squares;
}
