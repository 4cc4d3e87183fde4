// The offset of vector c (16 bytes) of row r in a tile, in elements.
template <class H = f16>
__device__ __forceinline__ int vector_offset(int row, int vector) { return (row * 8 + (vector ^ (row & 7))) * (16 / (int)sizeof(H)); }
// Rounds floats to TF32 (10 bits of mantissa), since matrix instructions only drop the other bits. Halves stay as they are.
__device__ __forceinline__ void round_fragment(u32* r, f32) {
#pragma unroll
  for (int e = 0; e < 4; ++e) r[e] = rounded_to_tf32(r[e]);
}
template <class H>
__device__ __forceinline__ void round_fragment(u32*, H) {}
template <class H>
__device__ __forceinline__ u32 both(f32 first, f32 second) {
  H h[2];
  put2(h, first, second);
  return (u32)h[0].bits | (u32)h[1].bits << 16;
}
