// Exclusive scan over a block's threads; `total` receives the total.
template <int Kind, class T>
__device__ __forceinline__ T scanned_across_block(T x, T& total) {
  __shared__ T part[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T through = x, none;
  neutral<Kind>(none);
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    T before = __shfl_up_sync(0xffffffffu, through, d);
    if (lane >= d) through = combined<Kind>(before, through);
  }
  if (lane == 31) part[warp] = through;
  __syncthreads();
  T before = none;
  total = none;
#pragma unroll
  for (int w = 0; w < scan_threads / 32; ++w) {
    if (w == warp) before = total;
    total = combined<Kind>(total, part[w]);
  }
  __syncthreads();
  T left = __shfl_up_sync(0xffffffffu, through, 1);
  return lane == 0 ? before : combined<Kind>(before, left);
}
template <class M, int Kind>
__device__ __forceinline__ void scan_a_line(const ScanCudaParameters& p) {
  i64 line = (i64)blockIdx.x * scan_threads + threadIdx.x;
  if (line >= p.lines) return;
  i64 at[2] = {0, 0};
  walk(p.axes, line, at);
  const M* in = (const M*)p.in + at[0];
  M* out = (M*)p.out + at[1];
  typename NumberOf<M>::Type total = number(in[0]);
  put_number(out[0], total);
#pragma unroll 4
  for (i64 i = 1; i < p.length; ++i) {
    total = combined<Kind>(total, number(in[i * p.in_step]));
    put_number(out[i * p.out_step], total);
  }
}
template <class M, int Kind>
__device__ __forceinline__ void scan_a_chunk(const ScanCudaParameters& p, bool write) {
  typedef typename NumberOf<M>::Type T;
  // One element of padding per thread avoids bank conflicts.
  __shared__ T tile[scan_threads * (scan_items + 1)];
  const i64 line = blockIdx.x / p.chunks, chunk = blockIdx.x % p.chunks;
  T none, carry;
  neutral<Kind>(none);
  carry = none;
  T* totals = (T*)p.totals + line * p.chunks;
  if (write) {
    for (i64 c = 0; c < chunk; c += scan_threads) {
      T total;
      scanned_across_block<Kind>(c + threadIdx.x < chunk ? totals[c + threadIdx.x] : none, total);
      carry = combined<Kind>(carry, total);
    }
  } else if (chunk + 1 == p.chunks) {
    return;
  }
  i64 at[2] = {0, 0};
  walk(p.axes, line, at);
  const M* in = (const M*)p.in + at[0];
  M* out = (M*)p.out + at[1];
  i64 end = (chunk + 1) * p.chunk;
  if (end > p.length) end = p.length;
  for (i64 first = chunk * p.chunk; first < end; first += scan_threads * scan_items) {
    M brought[scan_items];
#pragma unroll
    for (int k = 0; k < scan_items; ++k) {
      i64 i = first + k * scan_threads + threadIdx.x;
      if (i < end) brought[k] = in[i * p.in_step];
    }
#pragma unroll
    for (int k = 0; k < scan_items; ++k) {
      int i = k * scan_threads + threadIdx.x;
      tile[i + i / scan_items] = first + i < end ? number(brought[k]) : none;
    }
    __syncthreads();
    T mine[scan_items], total;
#pragma unroll
    for (int k = 0; k < scan_items; ++k) {
      mine[k] = tile[threadIdx.x * (scan_items + 1) + k];
      if (k > 0) mine[k] = combined<Kind>(mine[k - 1], mine[k]);
    }
    T before = combined<Kind>(carry, scanned_across_block<Kind>(mine[scan_items - 1], total));
    carry = combined<Kind>(carry, total);
    if (write) {
#pragma unroll
      for (int k = 0; k < scan_items; ++k) tile[threadIdx.x * (scan_items + 1) + k] = combined<Kind>(before, mine[k]);
      __syncthreads();
#pragma unroll
      for (int k = 0; k < scan_items; ++k) {
        int i = k * scan_threads + threadIdx.x;
        if (first + i < end) put_number(out[(first + i) * p.out_step], tile[i + i / scan_items]);
      }
    }
    __syncthreads();
  }
  if (!write && threadIdx.x == 0) totals[chunk] = carry;
}
// Adjacent lines, 32 per block; each thread scans a part of one, after the totals of the parts before.
template <class M, int Kind>
__device__ __forceinline__ void scan_columns(const ScanCudaParameters& p) {
  typedef typename NumberOf<M>::Type T;
  constexpr int parts = scan_column_threads / 32;
  __shared__ T totals[parts][32];
  const int lane = threadIdx.x % 32, part = threadIdx.x / 32;
  const i64 line = (i64)blockIdx.x * 32 + lane, begin = part * p.chunk, end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
  i64 at[2] = {0, 0};
  if (line < p.lines) walk(p.axes, line, at);
  const M* const in = (const M*)p.in + at[0];
  M* const out = (M*)p.out + at[1];
  T total;
  neutral<Kind>(total);
  if (line < p.lines) {
#pragma unroll 8
    for (i64 i = begin; i < end; ++i) total = combined<Kind>(total, number(in[i * p.in_step]));
  }
  totals[part][lane] = total;
  __syncthreads();
  if (line >= p.lines) return;
  neutral<Kind>(total);
  for (int k = 0; k < part; ++k) total = combined<Kind>(total, totals[k][lane]);
#pragma unroll 8
  for (i64 i = begin; i < end; ++i) {
    total = combined<Kind>(total, number(in[i * p.in_step]));
    put_number(out[i * p.out_step], total);
  }
}
