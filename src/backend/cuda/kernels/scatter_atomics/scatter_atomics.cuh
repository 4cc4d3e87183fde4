// Sums of updates by atomic operations on floats, in the order in which threads come. Comes after scatter_at_once.cuh.

#if __CUDA_ARCH__ >= 900
// 16 bytes at once.
__device__ __forceinline__ void add_words(f32* to, const uint4& v) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(__int_as_float((int)v.x)), "f"(__int_as_float((int)v.y)), "f"(__int_as_float((int)v.z)), "f"(__int_as_float((int)v.w)) : "memory");
}
__device__ __forceinline__ void add_words(f16* to, const uint4& v) {
  asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ void add_words(bf16* to, const uint4& v) {
  asm volatile("red.global.add.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ void add_atomically(f16* to, f16 x) { asm volatile("red.global.add.noftz.f16 [%0], %1;" ::"l"(to), "h"(x.bits) : "memory"); }
__device__ __forceinline__ void add_atomically(bf16* to, bf16 x) { asm volatile("red.global.add.noftz.bf16 [%0], %1;" ::"l"(to), "h"(x.bits) : "memory"); }
#endif
__device__ __forceinline__ void add_atomically(f32* to, f32 x) { atomicAdd(to, x); }
__device__ __forceinline__ void add_atomically(f64* to, f64 x) { atomicAdd(to, x); }
// Half types where no instruction adds them: in the word that has them.
template <class M>
__device__ __forceinline__ void add_atomically(M* to, M x) {
  u32* const word = (u32*)((u64)to & ~3ull);
  const int shift = ((u64)to & 2) != 0 ? 16 : 0;
  for (u32 old = *(volatile u32*)word;;) {
    M now;
    now.bits = (unsigned short)(old >> shift);
    put(now, value(now) + value(x));
    const u32 found = atomicCAS(word, old, (old & ~(0xffffu << shift)) | (u32)now.bits << shift);
    if (found == old) return;
    old = found;
  }
}
template <class M, int Vector>
__device__ __forceinline__ void add_vector(M* to, const M* from) {
#if __CUDA_ARCH__ >= 900
  if constexpr (Vector > 1 && sizeof(M) < 8) {
    const uint4 v = *(const uint4*)from;
    add_words(to, v);
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < Vector; ++i) add_atomically(to + i, from[i]);
}
template <class M, int Vector, int Indices>
__device__ __forceinline__ void scatter_atomics(const ScatterAtOnceParameters& p) {
  const i64 n = (i64)blockIdx.x * scatter_atomics_threads + threadIdx.x;
  i64 from, to;
  if (n < p.count && find<Indices>(p, n, from, to)) add_vector<M, Vector>((M*)p.out + to, (const M*)p.updates + from);
}
