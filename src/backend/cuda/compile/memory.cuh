// Element types and memory access.
typedef unsigned char u8;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
struct b8 { unsigned char bits; };
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };

__device__ __forceinline__ f32 of_bits(u32 v) { return __int_as_float((int)v); }
__device__ __forceinline__ f64 of_bits(u64 v) { return __longlong_as_double((i64)v); }

__device__ __forceinline__ bool value(b8 m) { return m.bits != 0; }
__device__ __forceinline__ int value(u8 m) { return m; }
__device__ __forceinline__ int value(i8 m) { return m; }
__device__ __forceinline__ int value(i16 m) { return m; }
__device__ __forceinline__ int value(i32 m) { return m; }
__device__ __forceinline__ i64 value(i64 m) { return m; }
__device__ __forceinline__ f32 value(f32 m) { return m; }
__device__ __forceinline__ f64 value(f64 m) { return m; }
__device__ __forceinline__ f32 value(bf16 m) { return of_bits((u32)m.bits << 16); }
__device__ __forceinline__ f32 value(f16 m) {
  f32 r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(m.bits));
  return r;
}
__device__ __forceinline__ void put(b8& m, bool v) { m.bits = v; }
__device__ __forceinline__ void put(u8& m, int v) { m = (u8)v; }
__device__ __forceinline__ void put(i8& m, int v) { m = (i8)v; }
__device__ __forceinline__ void put(i16& m, int v) { m = (i16)v; }
__device__ __forceinline__ void put(i32& m, int v) { m = v; }
__device__ __forceinline__ void put(u8& m, i64 v) { m = (u8)v; }
__device__ __forceinline__ void put(i8& m, i64 v) { m = (i8)v; }
__device__ __forceinline__ void put(i16& m, i64 v) { m = (i16)v; }
__device__ __forceinline__ void put(i32& m, i64 v) { m = (i32)v; }
__device__ __forceinline__ void put(i64& m, i64 v) { m = v; }
__device__ __forceinline__ void put(f32& m, f32 v) { m = v; }
__device__ __forceinline__ void put(f64& m, f64 v) { m = v; }
__device__ __forceinline__ void put(f16& m, f32 v) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(m.bits) : "f"(v)); }
__device__ __forceinline__ void put(bf16& m, f32 v) {
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(m.bits) : "f"(v));
#else
  u32 u = (u32)__float_as_int(v);
  m.bits = (unsigned short)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
}
// Two adjacent elements: half types are rounded in one instruction.
template <class M, class V>
__device__ __forceinline__ void put2(M* m, V first, V second) {
  put(m[0], first);
  put(m[1], second);
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void put2(f16* m, f32 first, f32 second) {
  u32 both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  *reinterpret_cast<u32*>(m) = both;
}
__device__ __forceinline__ void put2(bf16* m, f32 first, f32 second) {
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  *reinterpret_cast<u32*>(m) = both;
}
#endif
template <class M, class V>
__device__ __forceinline__ M memory(V v) {
  M m;
  put(m, v);
  return m;
}

template <int Bytes> struct Chunk { typedef uint4 Type; };
template <> struct Chunk<8> { typedef uint2 Type; };
template <> struct Chunk<4> { typedef u32 Type; };
template <> struct Chunk<2> { typedef unsigned short Type; };
template <> struct Chunk<1> { typedef unsigned char Type; };
// N adjacent elements in accesses of up to 16 bytes; `at` must be aligned for one access.
template <int N, class M>
__device__ __forceinline__ void read(M* to, const M* at) {
  constexpr int bytes = N * (int)sizeof(M), step = bytes < 16 ? bytes : 16;
  typedef typename Chunk<step>::Type C;
#pragma unroll
  for (int k = 0; k < bytes / step; ++k) reinterpret_cast<C*>(to)[k] = reinterpret_cast<const C*>(at)[k];
}
// The same for memory that is not written while the kernel runs: ordered freely with stores.
template <int N, class M>
__device__ __forceinline__ void read_constant(M* to, const M* at) {
  constexpr int bytes = N * (int)sizeof(M), step = bytes < 16 ? bytes : 16;
  typedef typename Chunk<step>::Type C;
#pragma unroll
  for (int k = 0; k < bytes / step; ++k) reinterpret_cast<C*>(to)[k] = __ldg(reinterpret_cast<const C*>(at) + k);
}
// The same, or zeros.
template <int N, class M>
__device__ __forceinline__ void read_constant_if(M* to, const M* at, bool condition) {
  constexpr int bytes = N * (int)sizeof(M), step = bytes < 16 ? bytes : 16;
  typedef typename Chunk<step>::Type C;
#pragma unroll
  for (int k = 0; k < bytes / step; ++k) {
    C c = {};
    if (condition) c = __ldg(reinterpret_cast<const C*>(at) + k);
    reinterpret_cast<C*>(to)[k] = c;
  }
}
template <int N, class M>
__device__ __forceinline__ void write(M* at, const M* from) {
  constexpr int bytes = N * (int)sizeof(M), step = bytes < 16 ? bytes : 16;
  typedef typename Chunk<step>::Type C;
#pragma unroll
  for (int k = 0; k < bytes / step; ++k) reinterpret_cast<C*>(at)[k] = reinterpret_cast<const C*>(from)[k];
}

// x / d for x < 2^31; the launcher computes `magic` (fused_launches.cpp).
__device__ __forceinline__ u32 divided(u32 x, i64 magic) { return (u32)(((u64)x * (u32)magic) >> (u32)(magic >> 32)); }

// A kernel that starts while the previous one ends (LaunchShape::overlaps) must call this before it accesses memory that others write; the next one may then
// start. Work done before a kernel's wait counts as done for all later ones, so every thread must wait.
//
// A kernel whose blocks hold much (tiles, attention by boxes, convolutions in groups) lets the next one start after its own wait: otherwise one after another starts
// early, and waiting blocks hold registers and shared memory that the running ones could use (docs/performance-notes/gemms_cuda.md).
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ __forceinline__ void wait_for_others() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void after_others() {
  let_next_start();
  wait_for_others();
}
// The first error: 1 = an index (value) is out of range (bound), 2 = integer division by zero.
__device__ __noinline__ void report(u64* status, u64 code, i64 found, i64 bound) {
  if (status != nullptr && atomicCAS(status, 0ull, code) == 0ull) {
    status[1] = (u64)found;
    status[2] = (u64)bound;
  }
}
__device__ __forceinline__ bool inside(i64 index, i64 extent, u64* status) {
  if ((u64)index < (u64)extent) return true;
  report(status, 1, index, extent);
  return false;
}
