// Sums of n elements, and their squared differences from their mean.
struct MomentsPart {
  f32 n, sum, squares;
};
__device__ __forceinline__ MomentsPart put_together(const MomentsPart& a, const MomentsPart& b) {
  if (a.n == 0.0f) return b;
  if (b.n == 0.0f) return a;
  const f32 delta = b.sum / b.n - a.sum / a.n, n = a.n + b.n;
  return {n, a.sum + b.sum, a.squares + b.squares + delta * delta * (a.n / n * b.n)};
}
// Adds one element at a time, relative to the first one: the mean is close to it if the squares are small, whatever the offset.
struct MomentsSum {
  f32 n = 0.0f, pivot = 0.0f, sum = 0.0f, differences = 0.0f, squares = 0.0f;
  __device__ __forceinline__ void add(f32 x) {
    if (n == 0.0f) pivot = x;
    const f32 d = x - pivot;
    n += 1.0f;
    sum += x;
    differences += d;
    squares = fmaf(d, d, squares);
  }
  __device__ __forceinline__ MomentsPart part() const {
    if (n == 0.0f) return {0.0f, 0.0f, 0.0f};
    const f32 s = squares - differences * differences / n;
    return {n, sum, s < 0.0f ? 0.0f : s};
  }
};
__device__ __forceinline__ MomentsPart from_lane(const MomentsPart& a, int lanes) {
  return {__shfl_xor_sync(0xffffffffu, a.n, lanes), __shfl_xor_sync(0xffffffffu, a.sum, lanes), __shfl_xor_sync(0xffffffffu, a.squares, lanes)};
}
// Merges over all threads of a block; the result is in thread 0.
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
// Some places by `width` vectors of V columns: threads side by side, then place by place. Each U columns are a part. Elements are summed relative to the
// part's first one, so that the threads' sums can simply be added.
template <class M, int V, int U>
__device__ __forceinline__ void moments_of_columns(const MomentsCudaParameters& p) {
  constexpr int each = V / U;
  __shared__ f32 differences[moments_threads * each], squares[moments_threads * each];
  const int width = (int)p.width, high = moments_threads / width, lane = threadIdx.x % width, place = threadIdx.x / width;
  const u32 tile = blockIdx.x % (u32)p.tiles, rest = blockIdx.x / (u32)p.tiles;
  const i64 chunk = rest % (u32)p.chunks, outer = rest / (u32)p.chunks;
  const i64 column = (tile * width + lane) * V, first = chunk * p.chunk;
  const i64 last = first + p.chunk < p.length ? first + p.chunk : p.length;
  i64 at[1] = {0};
  walk(p.from, outer, at);
  const bool inside = column < p.columns;
  const M* const from = (const M*)p.in + at[0] + (inside ? column : 0);
  alignas(16) M x[4][V];
  const f32 n = (f32)((last - first) * U);
  if (n == 0.0f) {
#pragma unroll
    for (int v = 0; v < V; ++v) put(x[0][v], 0.0f);
  } else {
    read<V>(x[0], from + first * p.step);
  }
  f32 pivot[each], a[V], q[V];
#pragma unroll
  for (int j = 0; j < each; ++j) pivot[j] = value(x[0][j * U]);
#pragma unroll
  for (int v = 0; v < V; ++v) a[v] = q[v] = 0.0f;
  if (inside && place < high) {
    for (i64 i = first + place; i < last; i += 4 * high) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (i + k * high < last) read<V>(x[k], from + (i + k * high) * p.step);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (i + k * high >= last) continue;
#pragma unroll
        for (int v = 0; v < V; ++v) {
          const f32 d = value(x[k][v]) - pivot[v / U];
          a[v] += d;
          q[v] = fmaf(d, d, q[v]);
        }
      }
    }
  }
#pragma unroll
  for (int j = 0; j < each; ++j) {
#pragma unroll
    for (int u = 1; u < U; ++u) a[j * U] += a[j * U + u], q[j * U] += q[j * U + u];
    differences[j * moments_threads + threadIdx.x] = a[j * U];
    squares[j * moments_threads + threadIdx.x] = q[j * U];
  }
  __syncthreads();
  if (place != 0 || !inside) return;
#pragma unroll
  for (int j = 0; j < each; ++j) {
    f32 d = 0.0f, s = 0.0f;
    for (int h = 0; h < high; ++h) d += differences[j * moments_threads + h * width + lane], s += squares[j * moments_threads + h * width + lane];
    const f32 left = n == 0.0f ? 0.0f : s - d * d / n;
    put_moments(p, (outer * p.chunks + chunk) * (p.columns / U) + column / U + j, {n, fmaf(n, pivot[j], d), left < 0.0f ? 0.0f : left});
  }
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
// Merges over all threads of a block; all get the result.
__device__ __forceinline__ f32 sum_of_block(f32 x, f32* shared) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  x = 0.0f;
#pragma unroll
  for (int w = 0; w < moments_threads / 32; ++w) x += shared[w];
  return x;
}
// Merges parts around the mean of all, which is known when all sums are. Parts are then read again, from the cache.
__device__ __forceinline__ void merge_moments(const MomentsCudaParameters& p) {
  __shared__ f32 shared[2][moments_threads / 32];
  const u32 groups = (u32)p.groups, own = (u32)p.own, parts = (u32)(p.chunks * p.own);
  const i64 row = blockIdx.x, outer = blockIdx.x / groups, group = blockIdx.x % groups, width = p.groups * p.own;
  const f32* const from = (const f32*)p.parts + 2 * (outer * p.chunks * width + group * p.own);
  auto part = [&](u32 e) { return from + 2 * (i64)(e / own * (u32)width + e % own); };
  f32 sum = 0.0f, squares = 0.0f;
  for (u32 e = threadIdx.x; e < parts; e += moments_threads) sum += part(e)[0];
  sum = sum_of_block(sum, shared[0]);
  const f32 mean = sum / (f32)(p.length * p.unit * p.own);
  for (u32 e = threadIdx.x; e < parts; e += moments_threads) {
    const i64 left = p.length - e / own * p.chunk;
    const f32 n = (f32)((left < p.chunk ? left : p.chunk) * p.unit), delta = __fdividef(part(e)[0], n) - mean;
    squares += fmaf(delta * delta, n, part(e)[1]);
  }
  squares = sum_of_block(squares, shared[1]);
  if (threadIdx.x != 0) return;
  i64 at[2] = {0, 0};
  walk(p.results, row, at);
  ((f32*)p.sums)[at[0]] = sum;
  ((f32*)p.squares)[at[1]] = squares;
}
