// Parts of kernels that sum windows of an image: V adjacent channels or columns.
template <int V>
__device__ __forceinline__ void read_strided(f32* to, const f32* at, i64 step) {
#pragma unroll
  for (int v = 0; v < V; ++v) read_constant<1>(to + v, at + v * step);
}
template <int V, class M>
__device__ __forceinline__ void widen(f32* to, const M* from) {
#pragma unroll
  for (int v = 0; v < V; ++v) to[v] = value(from[v]);
}
template <int V>
__device__ __forceinline__ void add_products(f32* sums, const f32* x, const f32* w) {
#pragma unroll
  for (int v = 0; v < V; ++v) sums[v] += x[v] * w[v];
}
// Values converted to the stored type.
template <int V, class M, class T>
__device__ __forceinline__ void keep(M* to, const T* from) {
  if constexpr (V % 2 == 0) {
#pragma unroll
    for (int v = 0; v < V; v += 2) put2(to + v, from[v], from[v + 1]);
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) put(to[v], from[v]);
  }
}
