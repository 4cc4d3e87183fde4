// A warp's fragments are those of mma.m16n8k16: rows lane / 4 and lane / 4 + 8, columns 2 (lane % 4) and the next. The fragments of four warps with 64 rows
// are these stacked, so that the code around both instructions is the same.
__device__ __forceinline__ u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }
__device__ __forceinline__ void four_matrices(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__device__ __forceinline__ void four_matrices_transposed(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__device__ __forceinline__ void two_words(u32* r, u32 at) { asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at)); }
__device__ __forceinline__ void put_two_words(u32 at, const u32* r) { asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at), "r"(r[0]), "r"(r[1]) : "memory"); }
__device__ __forceinline__ void multiply(f32* c, const u32* a, const u32* b, f16) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void multiply(f32* c, const u32* a, const u32* b, bf16) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// TF32, m16n8k8: fragments of A and B have as many words, each a float whose low 13 bits are ignored.
__device__ __forceinline__ void multiply(f32* c, const u32* a, const u32* b, f32) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ u32 rounded_to_tf32(u32 x) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(of_bits(x)));
  return r;
}
__device__ __forceinline__ u32 minus_halves(u32 x, u32 y) {
  u32 r;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
  return r;
}
__device__ __forceinline__ u32 minus_pairs(u32 x, u32 y, f16) { return minus_halves(x, y); }
__device__ __forceinline__ u32 minus_pairs(u32 x, u32 y, bf16) {
  u32 r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(y), "r"(0xbf80bf80u), "r"(x));  // sm_80 has no subtraction
  return r;
}
__device__ __forceinline__ void copy_async_or_zero(u32 to, const void* from, u32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ uint4 streamed(const void* from) {
  uint4 r;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(from));
  return r;
}
// Prefetches these bytes.
__device__ __forceinline__ void prefetch_to_l2(const void* from, u32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#else
  for (u32 at = 0; at < bytes; at += 128) asm volatile("prefetch.global.L2 [%0];" ::"l"((const char*)from + at));
#endif
}
template <int Left>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define INGOT_WARPGROUPS
__device__ __forceinline__ void put_four_matrices(u32 at, const u32* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
#define INGOT_BLOCKS(n) n
// Keeps the compiler from moving sums across an instruction that still writes them.
template <int N>
__device__ __forceinline__ void hold(f32* sums) {
#pragma unroll
  for (int e = 0; e < N; ++e) asm volatile("" : "+f"(sums[e])::"memory");
}
// Keeps the compiler from moving the computation of A's fragments after the fence that shows them to the instruction.
template <int N>
__device__ __forceinline__ void hold(u32* fragments) {
#pragma unroll
  for (int e = 0; e < N; ++e) asm volatile("" : "+r"(fragments[e])::"memory");
}
template <int N>
__device__ __forceinline__ void begin_multiplying(f32* sums) {
  hold<N>(sums);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Between groups of products that add to the same sums.
__device__ __forceinline__ void go_on_multiplying() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void multiplying() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wait_multiplied(f32* sums) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  hold<N>(sums);
}
// Waits until all groups but the last `Left` are done with their tiles; the sums may still be written.
template <int Left>
__device__ __forceinline__ void leave_multiplying() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}
// ---- barriers in shared memory, which count arrivals and bytes; and the unit (TMA) that copies boxes of tensors there (TileMap: encoded by the host)
__device__ __forceinline__ void make_barrier(u32 at, u32 arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void show_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void arrive(u32 at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }
__device__ __forceinline__ void arrive_with(u32 at, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory"); }
// Waits until the phase of this parity has ended; the first phase has parity 0.
__device__ __forceinline__ void wait_barrier(u32 at, u32 parity) {
  asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}" ::"r"(at), "r"(parity) : "memory");
}
__device__ __forceinline__ void fetch_map(const void* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
__device__ __forceinline__ void copy_box_async(u32 to, const void* map, u32 barrier, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z) : "memory");
}
// ---- clusters: blocks that run at the same time and reach each other's shared memory
// All threads that have not ended.
__device__ __forceinline__ void meet_cluster() { asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory"); }
// At the barrier of that block of the cluster; -1: of the own one.
__device__ __forceinline__ void arrive_at(u32 barrier, int block) {
  if (block < 0) return arrive(barrier);
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier), "r"(block) : "memory");
}
// To the same place in all blocks of the cluster, whose barriers count its bytes.
template <int Cluster>
__device__ __forceinline__ void copy_box_to_all(u32 to, const void* map, u32 barrier, int x, int y, int z) {
  if (Cluster == 1) return copy_box_async(to, map, barrier, x, y, z);
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z),
               "h"((unsigned short)((1 << Cluster) - 1))
               : "memory");
}
__device__ __forceinline__ void copy_box_async(u32 to, const void* map, u32 barrier, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}
// The opposite direction: the thread that sends boxes waits until they have been read, before others overwrite them.
__device__ __forceinline__ void send_box(u32 from, const void* map, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map), "r"(from), "r"(x), "r"(y), "r"(z) : "memory");
}
__device__ __forceinline__ void commit_sent() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait_sent() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
// Channels of pixels from pixel (w, h, n) on, each shifted by (right, down).
__device__ __forceinline__ void copy_pixels_async(u32 to, const void* map, u32 barrier, int c, int w, int h, int n, int right, int down) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to), "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h),
               "r"(n), "h"((unsigned short)right), "h"((unsigned short)down)
               : "memory");
}
// The same for positions (w, h, d, n) of a volume.
__device__ __forceinline__ void copy_pixels_async(u32 to, const void* map, u32 barrier, int c, int w, int h, int d, int n, int right, int down, int deep) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(to), "l"(map), "r"(barrier), "r"(c),
               "r"(w), "r"(h), "r"(d), "r"(n), "h"((unsigned short)right), "h"((unsigned short)down), "h"((unsigned short)deep)
               : "memory");
}
// Forces x (never negative) to be computed before a later wait: ptxas moves waits forward, but not across memory accesses.
__device__ __forceinline__ void computed(f32 x) {
  asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n@p st.shared.f32 [%1], %0;\n}" ::"f"(x), "r"(0u) : "memory");
}
// Changes the number of registers that each thread of a group of four warps has; all four call it. Others take what one group leaves.
template <int N>
__device__ __forceinline__ void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
// A barrier of a group's four warps. Its number must be a literal; otherwise the kernel reserves all sixteen.
template <int Groups>
__device__ __forceinline__ void meet_group() {
  if constexpr (Groups > 1) {
    if (threadIdx.x / 128 + 1 < Groups) return meet_group<Groups - 1>();
  }
  asm volatile("bar.sync %0, 128;" ::"n"(Groups) : "memory");
}
// A barrier of all groups that multiply.
template <int Groups>
__device__ __forceinline__ void meet_groups() {
  asm volatile("bar.sync %0, %1;" ::"n"(Groups + 1), "n"(Groups * 128) : "memory");
}
// Makes threads' writes to shared memory visible to asynchronous units.
__device__ __forceinline__ void show_to_matrix_units() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// The instruction's descriptor of a tile: eight rows are 1024 bytes, and groups of 64 columns are `group` bytes apart.
__device__ __forceinline__ u64 tile_of(u32 address, u32 group) { return (u64)(address >> 4 & 0x3fffu) | (u64)(group >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62; }
// c += A B for 64 rows. A is a tile or fragments; B is a tile, contiguous along K or along its columns. Without `add`: c = A B.
template <int Columns, bool AlongK, class H> struct Multiplication;
template <int Columns, bool AlongK, class H>
__device__ __forceinline__ void multiply_tiles(f32* c, u64 a, u64 b, H, bool add) {
  Multiplication<Columns, AlongK, H>::tiles(c, a, b, add);
}
template <int Columns, bool AlongK, class H>
__device__ __forceinline__ void multiply_rows(f32* c, const u32* a, u64 b, H) {
  Multiplication<Columns, AlongK, H>::rows(c, a, b, true);
}
