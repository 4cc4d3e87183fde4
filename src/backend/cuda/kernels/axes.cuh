// Adds the first tensors' offsets at point n to `offsets`. Offset: i64, or i32 if points and offsets are known to fit.
template <int Used, class Offset, int Walks>
__device__ __forceinline__ void walk_first(const CudaAxes<Walks>& a, Offset n, Offset* offsets) {
#pragma unroll 1
  for (int d = a.rank - 1; d >= 0; --d) {
    Offset at = n;
    if (d > 0) {
      Offset rest;
      if (sizeof(Offset) == 4 || ((u64)n | (u64)a.dims[d]) >> 32 == 0) {
        rest = (Offset)((u32)n / (u32)a.dims[d]);
      } else {
        rest = (Offset)(n / a.dims[d]);
      }
      at = n - rest * (Offset)a.dims[d];
      n = rest;
    }
#pragma unroll
    for (int w = 0; w < Used; ++w) offsets[w] += at * (Offset)a.strides[w][d];
  }
}
// Adds each tensor's offset.
template <int Walks>
__device__ __forceinline__ void walk(const CudaAxes<Walks>& a, i64 n, i64* offsets) { walk_first<Walks>(a, n, offsets); }
