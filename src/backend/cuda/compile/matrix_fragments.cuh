// GELU for results of a half type: max(x, 0) - |x| Q(|x|), where Q is the normal distribution's upper tail and log2 Q is approximated by the polynomial of
// least maximum error, 5.5e-5, on [0, 5.75]: Q keeps 14 bits where it is small. Beyond, the error is below 3e-8.
__device__ __forceinline__ f32 gelu_for_half(f32 x) {
  const f32 a = fminf(fabsf(x), 5.75f);
  const f32 p = fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(2.4959634e-5f, a, -6.4390211e-4f), a, 7.4015139e-3f), a, -5.1789552e-2f), a, -0.46044263f), a, -1.1506338f), a, -1.0f);
  return fmaf(-a, power_of_2(p), most(x, 0.0f));
}
// The offset of piece c (16 bytes) of row r in a tile, in elements.
template <class H = f16>
__device__ __forceinline__ int piece_of(int row, int piece) { return (row * 8 + (piece ^ (row & 7))) * (16 / (int)sizeof(H)); }
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
