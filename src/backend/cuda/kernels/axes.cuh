// Adds each tensor's offset at point n to `offsets`.
template <int Walks>
__device__ __forceinline__ void walk(const CudaAxes<Walks>& a, i64 n, i64* offsets) {
  for (int d = a.rank - 1; d >= 0; --d) {
    i64 at = n;
    if (d > 0) {
      i64 rest;
      if (((u64)n | (u64)a.dims[d]) >> 32 == 0) {
        rest = (i64)((u32)n / (u32)a.dims[d]);
      } else {
        rest = n / a.dims[d];
      }
      at = n - rest * a.dims[d];
      n = rest;
    }
#pragma unroll
    for (int w = 0; w < Walks; ++w) offsets[w] += at * a.strides[w][d];
  }
}
