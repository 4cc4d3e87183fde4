// The emulated GPU: what printed kernels call, on the host. Threads are fibers; asynchronous copies and matrix products take effect early or late.
struct uint4 { u32 x, y, z, w; };
struct float4 { f32 x, y, z, w; };
inline float4 make_float4(f32 x, f32 y, f32 z, f32 w) { return {x, y, z, w}; }
struct Index { u32 x = 0, y = 0; };
Index threadIdx, blockIdx, gridDim, blockDim;

// ---- threads as fibers, and what they wait for

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool done = false;
  std::deque<std::vector<std::function<void()>>> groups;  // copies under way
  std::vector<std::function<void()>> copies, products;
  std::deque<std::vector<std::function<void()>>> product_groups;
  std::vector<std::function<void()>> sent;  // boxes being copied to memory, and whether they are committed
  size_t committed = 0;
};
struct Barrier { u32 count = 0, generation = 0; };
std::vector<Fiber> fibers;  // of all blocks of a cluster
ucontext_t scheduler;
u32 current = 0;  // thread of its block
bool late = false;
// A barrier in shared memory: arrivals and bytes still expected in this phase, and copies in flight.
struct Arrivals {
  u32 of = 0, left = 0, phase = 0;
  i64 bytes = 0;
  std::vector<std::function<void()>> copies;
  void look() {
    if (left > 0 || bytes != 0) return;
    left = of;
    ++phase;
  }
};
struct Fragments { u32 a[4], b[2]; };
// What a block has of its own. A cluster's blocks run together.
struct Block {
  alignas(1024) uint4 memory[232448 / 16];
  std::map<u32, Arrivals> arrivals;
  Barrier barrier, warp_barriers[64], group_barriers[16];
  // What the lanes of a warp tell each other.
  u64 shuffled[64][32];
  u32 addresses[64][32];
  Fragments fragments[64][32];
};
constexpr u32 max_blocks = 2;
Block blocks[max_blocks];
u32 here = 0;  // block of the cluster
#define tiles_of_block blocks[here].memory
Barrier cluster_barrier;
void (*kernel_now)(const void*);
const void* parameters_now;

Fiber& me() { return fibers[here * blockDim.x + current]; }
void yield() { swapcontext(&me().context, &scheduler); }
void meet(Barrier& b, u32 of) {
  const u32 generation = b.generation;
  if (++b.count == of) {
    b.count = 0;
    ++b.generation;
  } else {
    while (b.generation == generation) yield();
  }
}
void meet_warp() { meet(blocks[here].warp_barriers[current / 32], 32); }
void meet_warps_of_group() { meet(blocks[here].group_barriers[current / 128], 128); }
void __syncthreads() { meet(blocks[here].barrier, blockDim.x); }
// Counts the threads that have not ended.
void meet_cluster() {
  const u32 generation = cluster_barrier.generation;
  ++cluster_barrier.count;
  while (cluster_barrier.generation == generation) {
    const auto running = std::count_if(fibers.begin(), fibers.end(), [](const Fiber& f) { return !f.done; });
    if (cluster_barrier.count < (u32)running) {
      yield();
    } else {
      cluster_barrier = {0, generation + 1};
    }
  }
}
int __syncthreads_or(int x) {
  static int any = 0;
  any |= x;
  __syncthreads();
  const int out = any;
  __syncthreads();
  any = 0;
  __syncthreads();
  return out;
}
void enter() {
  kernel_now(parameters_now);
  me().done = true;
  yield();
}
extern "C" void emulate(void (*kernel)(const void*), const void* parameters, u32 columns, u32 rows, u32 threads, u32 cluster, int as_late) {
  late = as_late != 0;
  kernel_now = kernel;
  parameters_now = parameters;
  gridDim.x = columns;
  gridDim.y = rows;
  blockDim.x = threads;
  if (cluster > max_blocks || columns % cluster != 0) std::fprintf(stderr, "clusters of %u of %u blocks\n", cluster, columns), std::abort();
  for (u32 first = 0; first < columns * rows; first += cluster) {
    for (u32 b = 0; b < cluster; ++b) std::memset((void*)blocks[b].memory, 0x7f, sizeof blocks[b].memory);
    const u32 all = cluster * threads;
    fibers.clear();
    fibers.resize(all);
    for (Fiber& f : fibers) {
      constexpr size_t size = 64 << 10;
      f.stack.reset(new char[size]);
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.get();
      f.context.uc_stack.ss_size = size;
      f.context.uc_link = &scheduler;
      makecontext(&f.context, enter, 0);
    }
    for (u32 left = all, turns = 0; left > 0; ++turns) {
      // Threads run in a different order each time.
      for (u32 k = 0; k < all; ++k) {
        const u32 next = (k * 37 + turns * 11) % all;
        if (fibers[next].done) continue;
        here = next / threads;
        threadIdx.x = current = next % threads;
        blockIdx.x = first % columns + here;
        blockIdx.y = first / columns;
        swapcontext(&scheduler, &fibers[next].context);
        if (fibers[next].done) --left;
      }
      if (turns > 10000000) std::fprintf(stderr, "the kernel does not end\n"), std::abort();
    }
    for (Block& b : blocks) {
      for (auto& [at, a] : b.arrivals) {
        if (!a.copies.empty() || a.bytes != 0) std::fprintf(stderr, "a block ends before its copies\n"), std::abort();
      }
      b.arrivals.clear();
      b.barrier = {};
      for (Barrier& x : b.warp_barriers) x = {};
      for (Barrier& x : b.group_barriers) x = {};
    }
    for (const Fiber& f : fibers) {
      if (!f.sent.empty()) std::fprintf(stderr, "a block ends before what it sent was read\n"), std::abort();
    }
    cluster_barrier = {};
    here = 0;
  }
}

// ---- values

template <class To, class From> To bits_of(From v) { To out; std::memcpy(&out, &v, sizeof out); return out; }
inline f32 of_bits(u32 v) { return bits_of<f32>(v); }
inline f64 of_bits(u64 v) { return bits_of<f64>(v); }
inline u32 __byte_perm(u32 x, u32 y, u32 s) {
  const u64 both = (u64)y << 32 | x;
  u32 out = 0;
  for (u32 i = 0; i < 4; ++i) out |= (u32)(both >> (s >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return out;
}
inline f32 value(f32 v) { return v; }
inline f64 value(f64 v) { return v; }
inline int value(i32 v) { return v; }
inline i64 value(i64 v) { return v; }
inline f32 value(f16 v) { return (f32)bits_of<_Float16>(v.bits); }
inline f32 value(bf16 v) { return of_bits((u32)v.bits << 16); }
inline void put(f32& m, f32 v) { m = v; }
inline void put(f16& m, f32 v) { m.bits = bits_of<unsigned short>((_Float16)v); }
inline void put(bf16& m, f32 v) { u32 u = bits_of<u32>(v); m.bits = (unsigned short)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16); }
template <class M, class V> void put2(M* m, V first, V second) { put(m[0], first); put(m[1], second); }
template <class M, class V> M memory(V v) { M m; put(m, v); return m; }
template <int N, class M> void read(M* to, const M* at) {
  if ((uintptr_t)at % std::min<size_t>(16, N * sizeof(M)) != 0) std::fprintf(stderr, "a read of 16 bytes from an address that is none\n"), std::abort();
  std::memcpy(to, at, N * sizeof(M));
}
inline u32 divided(u32 x, i64 magic) { return (u32)(((u64)x * (u32)magic) >> (u32)(magic >> 32)); }
template <int N, class M> void read_constant(M* to, const M* at) { read<N>(to, at); }
template <int N, class M> void read_constant_if(M* to, const M* at, bool condition) {
  if (condition) read<N>(to, at); else std::memset(to, 0, N * sizeof(M));
}
template <int N, class M> void write(M* at, const M* from) {
  if ((uintptr_t)at % std::min<size_t>(16, N * sizeof(M)) != 0) std::fprintf(stderr, "a write of 16 bytes to an address that is none\n"), std::abort();
  std::memcpy(at, from, N * sizeof(M));
}
inline bool inside(i64 index, i64 extent, u64*) { return (u64)index < (u64)extent; }
template <class T> T max_nan(T a, T b) { return a != a || a > b ? a : b; }
template <class T> T relu_of(T x) { return x < T(0) ? T(0) : x; }
inline f32 power_of_2(f32 x) { return std::exp2(x); }
inline u32 minus_halves(u32 x, u32 y) {
  u32 r = 0;
  for (u32 e = 0; e < 2; ++e) {
    const unsigned short a = (unsigned short)(x >> 16 * e), b = (unsigned short)(y >> 16 * e);
    r |= (u32)bits_of<unsigned short>((_Float16)(bits_of<_Float16>(a) - bits_of<_Float16>(b))) << 16 * e;
  }
  return r;
}
inline u32 minus_pairs(u32 x, u32 y, f16) { return minus_halves(x, y); }
inline u32 minus_pairs(u32 x, u32 y, bf16) {
  u32 r = 0;
  for (u32 e = 0; e < 2; ++e) {
    bf16 a, b, c;
    a.bits = (unsigned short)(x >> 16 * e), b.bits = (unsigned short)(y >> 16 * e);
    put(c, value(a) - value(b));
    r |= (u32)c.bits << 16 * e;
  }
  return r;
}
inline f32 __fdividef(f32 x, f32 y) { return x / y; }
inline f32 fabsf(f32 x) { return std::fabs(x); }
inline u32 __float_as_uint(f32 x) { return bits_of<u32>(x); }
inline f32 __uint_as_float(u32 x) { return bits_of<f32>(x); }
inline f32 fminf(f32 x, f32 y) { return std::fmin(x, y); }
inline f32 fmaxf(f32 x, f32 y) { return std::fmax(x, y); }
inline f32 silu_of(f32 x) { return x / (1 + std::exp(-x)); }
inline f32 silu_for_half(f32 x) { return silu_of(x); }
inline f32 rsqrtf(f32 x) { return 1 / std::sqrt(x); }
inline f32 gelu_of(f32 x) { f32 h = 0.5f * x; return std::fma(h, std::erf(x * 0.70710678f), h); }

inline int __float_as_int(f32 x) { return bits_of<int>(x); }
inline i64 __double_as_longlong(f64 x) { return bits_of<i64>(x); }
inline i64 __double2ll_rn(f64 x) { return (i64)std::llrint(x); }
inline void put(i32& m, i64 v) { m = (i32)v; }
inline void put(i64& m, i64 v) { m = v; }
template <class T> bool infinite(T x) { return std::isinf(x); }
inline f64 exp_called(f64 x) { return std::exp(x); }
inline f64 log1p_called(f64 x) { return std::log1p(x); }
template <class T> T cos_called(T x) { return std::cos(x); }
template <class T> T sin_called(T x) { return std::sin(x); }
inline i64 plus(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
inline i64 times(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
inline void report(u64* status, u64 code, i64 found, i64 bound) { if (status[0] == 0) status[0] = code; }

// ---- atomic operations: fibers change places only where they wait

template <class T> T atomicAdd(T* to, T x) { T old = *to; *to = old + x; return old; }
template <class T> T atomicMin(T* to, T x) { T old = *to; *to = std::min(old, x); return old; }
template <class T> T atomicMax(T* to, T x) { T old = *to; *to = std::max(old, x); return old; }
template <class T> T atomicCAS(T* to, T from, T x) { T old = *to; if (old == from) *to = x; return old; }

// ---- warp-wide operations

template <class T> T from_lane(T v, u32 lane) {
  u64* all = blocks[here].shuffled[current / 32];
  std::memcpy(&all[current % 32], &v, sizeof v);
  meet_warp();
  T out;
  std::memcpy(&out, &all[lane], sizeof out);
  meet_warp();
  return out;
}
template <class T> T __shfl_xor_sync(u32, T v, u32 mask) { return from_lane(v, (current % 32) ^ mask); }
template <class T> T __shfl_sync(u32, T v, u32 lane) { return from_lane(v, lane); }
// A bit for each lane whose value fits.
template <class Fits> u32 lanes_whose(u64 v, Fits fits) {
  u64* all = blocks[here].shuffled[current / 32];
  all[current % 32] = v;
  meet_warp();
  u32 out = 0;
  for (u32 lane = 0; lane < 32; ++lane) out |= (fits(all[lane]) ? 1u : 0u) << lane;
  meet_warp();
  return out;
}
inline u32 __ballot_sync(u32, bool x) { return lanes_whose(x, [](u64 v) { return v != 0; }); }
inline u32 __match_any_sync(u32, u32 x) { return lanes_whose(x, [=](u64 v) { return v == x; }); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(u32 x) { return __builtin_popcount(x); }
template <class T> T __shfl_up_sync(u32, T v, u32 by) { return from_lane(v, current % 32 < by ? current % 32 : current % 32 - by); }
inline u32 shared_address(const void* at) { return (u32)((const char*)at - (const char*)tiles_of_block); }
inline char* shared(u32 at) {
  if (at >= sizeof tiles_of_block) std::fprintf(stderr, "shared memory at %u\n", at), std::abort();
  return (char*)tiles_of_block + at;
}
template <bool Transposed> void matrices(u32* r, u32 at) {
  u32* all = blocks[here].addresses[current / 32];
  const u32 lane = current % 32;
  all[lane] = at;
  meet_warp();
  for (u32 m = 0; m < 4; ++m) {
    unsigned short two[2];
    for (u32 e = 0; e < 2; ++e) {
      const u32 row = Transposed ? lane % 4 * 2 + e : lane / 4, column = Transposed ? lane / 4 : lane % 4 * 2 + e;
      std::memcpy(&two[e], shared(all[m * 8 + row] + column * 2), 2);
    }
    r[m] = (u32)two[0] | (u32)two[1] << 16;
  }
  meet_warp();
}
inline void four_matrices(u32* r, u32 at) { matrices<false>(r, at); }
inline void four_matrices_transposed(u32* r, u32 at) { matrices<true>(r, at); }
inline void put_four_matrices(u32 at, const u32* r) {
  u32* all = blocks[here].addresses[current / 32];
  const u32 lane = current % 32;
  all[lane] = at;
  meet_warp();
  for (u32 m = 0; m < 4; ++m) std::memcpy(shared(all[m * 8 + lane / 4] + lane % 4 * 4), &r[m], 4);
  meet_warp();
}
inline void two_words(u32* r, u32 at) { read<2>(r, (const u32*)shared(at)); }
inline void put_two_words(u32 at, const u32* r) { write<2>((u32*)shared(at), r); }
template <class H> void multiply(f32* c, const u32* a, const u32* b, H) {
  Fragments* all = blocks[here].fragments[current / 32];
  const u32 lane = current % 32;
  std::memcpy(all[lane].a, a, 16);
  std::memcpy(all[lane].b, b, 8);
  meet_warp();
  auto half = [](u32 both, u32 which) { H h; h.bits = (unsigned short)(both >> 16 * which); return value(h); };
  for (u32 e = 0; e < 4; ++e) {
    const u32 row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
    for (u32 k = 0; k < 16; ++k) {
      const Fragments &of_row = all[row % 8 * 4 + k % 8 / 2], &of_column = all[column * 4 + k % 8 / 2];
      c[e] += half(of_row.a[row / 8 + k / 8 * 2], k % 2) * half(of_column.b[k / 8], k % 2);
    }
  }
  meet_warp();
}

// The matrix instructions ignore the low 13 bits of floats.
inline f32 as_tf32(u32 x) { return of_bits(x & ~0x1fffu); }
inline u32 rounded_to_tf32(u32 x) { return (x & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : (x + 0x1000u) & ~0x1fffu; }
inline void multiply(f32* c, const u32* a, const u32* b, f32) {
  Fragments* all = blocks[here].fragments[current / 32];
  const u32 lane = current % 32;
  std::memcpy(all[lane].a, a, 16);
  std::memcpy(all[lane].b, b, 8);
  meet_warp();
  for (u32 e = 0; e < 4; ++e) {
    const u32 row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
    for (u32 k = 0; k < 8; ++k) c[e] += as_tf32(all[row % 8 * 4 + k % 4].a[row / 8 + k / 4 * 2]) * as_tf32(all[column * 4 + k % 4].b[k / 4]);
  }
  meet_warp();
}

// ---- copies that arrive later

inline void copy_async_or_zero(u32 to, const void* from, u32 bytes) {
  if ((uintptr_t)from % 16 != 0 || to % 16 != 0) std::fprintf(stderr, "a copy of 16 bytes between addresses that are none\n"), std::abort();
  auto copy = [=] {
    std::memset(shared(to), 0, 16);
    std::memcpy(shared(to), from, bytes);
  };
  if (late) {
    me().copies.push_back(copy);
  } else {
    copy();
  }
}
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
inline uint4 streamed(const void* from) {
  if ((uintptr_t)from % 16 != 0) std::fprintf(stderr, "a read of 16 bytes from an address that is none\n"), std::abort();
  uint4 out;
  std::memcpy(&out, from, 16);
  return out;
}
inline void prefetch_to_l2(const void* from, u32 bytes) {
  if ((uintptr_t)from % 16 != 0 || bytes % 16 != 0) std::fprintf(stderr, "bytes that cannot be brought near\n"), std::abort();
}
inline void commit_copies() {
  me().groups.push_back(std::move(me().copies));
  me().copies.clear();
}
template <int Left> void wait_copies() {
  auto& groups = me().groups;
  for (; groups.size() > Left; groups.pop_front()) {
    for (auto& copy : groups.front()) copy();
  }
}

// ---- products of groups of four warps

template <int N> void begin_multiplying(f32*) { meet_warps_of_group(); }
inline void go_on_multiplying() { meet_warps_of_group(); }
inline void multiplying() {
  me().product_groups.push_back(std::move(me().products));
  me().products.clear();
}
// The four warps wait together.
template <int Left> void leave_multiplying() {
  auto& groups = me().product_groups;
  for (; groups.size() > Left; groups.pop_front()) {
    for (auto& product : groups.front()) product();
  }
  meet_warps_of_group();
}
template <int N> void wait_multiplied(f32*) { leave_multiplying<0>(); }

// ---- barriers in shared memory, and the unit that copies boxes there

inline void make_barrier(u32 at, u32 count) {
  Arrivals& a = blocks[here].arrivals[at];
  a = {};
  a.of = a.left = count;
}
inline void show_barriers() {}
inline void arrive(u32 at) {
  Arrivals& a = blocks[here].arrivals.at(at);
  if (a.left == 0) std::fprintf(stderr, "an arrival too many\n"), std::abort();
  --a.left;
  a.look();
}
inline void arrive_with(u32 at, u32 bytes) {
  blocks[here].arrivals.at(at).bytes += bytes;
  arrive(at);
}
// Does it as a thread of that block of the cluster.
template <class Do> void in_block(u32 block, Do what) {
  const u32 own = here;
  here = block;
  what();
  here = own;
}
inline void arrive_at(u32 at, int block) {
  in_block(block < 0 ? here : (u32)block, [&] { arrive(at); });
}
inline void wait_barrier(u32 at, u32 parity) {
  Arrivals& a = blocks[here].arrivals.at(at);
  while ((a.phase & 1) == parity) {
    auto copies = std::move(a.copies);
    a.copies.clear();
    for (auto& copy : copies) copy();
    if ((a.phase & 1) == parity) yield();
  }
}
inline void fetch_map(const void*) {}
// The emulation's form of a tensor map parameter: the memory and kernels::CudaTiles.
struct TileMap {
  const char* memory;
  i64 rank, dims[5], strides[4], box[4], steps[5], lower[3], upper[3], size, rounded;  // size: bytes of an element
};
inline const TileMap& map_at(const void* map) { return **(const TileMap* const*)map; }
// Floats are rounded to TF32 while they are copied.
inline void vector_to(const TileMap& m, u32 to, i64 row, i64 column, const char* from) {
  u32 bits = 0;
  if (from != nullptr) std::memcpy(&bits, from, m.size);
  if (m.rounded != 0) bits = rounded_to_tf32(bits);
  u32 at = to + (u32)(row * 128 + column * m.size);
  at ^= (at >> 7 & 7) << 4;
  std::memcpy(shared(at), &bits, m.size);
}
template <class Copy> void copy_later(u32 barrier, u32 bytes, Copy copy) {
  auto all = [=] {
    copy();
    Arrivals& a = blocks[here].arrivals.at(barrier);
    a.bytes -= bytes;
    a.look();
  };
  if (late) {
    blocks[here].arrivals.at(barrier).copies.push_back(all);
  } else {
    all();
  }
}
inline void copy_box(u32 to, const void* map, u32 barrier, std::vector<i64> first) {
  const TileMap& m = map_at(map);
  i64 rows = 1;
  for (int d = 1; d < m.rank; ++d) rows *= m.box[d];
  if (to % 1024 != 0 || m.box[0] * m.size != 128 || m.rank != (i64)first.size()) std::fprintf(stderr, "a box to %u\n", to), std::abort();
  copy_later(barrier, (u32)(rows * 128), [=, &m] {
    for (i64 row = 0; row < rows; ++row) {
      bool there = true;
      i64 offset = 0, rest = row;
      for (int d = 1; d < m.rank; rest /= m.box[d], ++d) {
        const i64 at = first[d] + rest % m.box[d];
        there = there && at >= 0 && at < m.dims[d];
        offset += at * m.strides[d - 1];
      }
      for (i64 i = 0; i < m.box[0]; ++i) {
        const i64 x = first[0] + i;
        vector_to(m, to, row, i, there && x >= 0 && x < m.dims[0] ? m.memory + x * m.size + offset : nullptr);
      }
    }
  });
}
inline void copy_box_async(u32 to, const void* map, u32 barrier, int x, int y, int z) { copy_box(to, map, barrier, {x, y, z}); }
template <int Cluster> void copy_box_to_all(u32 to, const void* map, u32 barrier, int x, int y, int z) {
  for (u32 block = 0; block < Cluster; ++block) in_block(block, [&] { copy_box(to, map, barrier, {x, y, z}); });
}
inline void copy_box_async(u32 to, const void* map, u32 barrier, int x, int y, int z, int w) { copy_box(to, map, barrier, {x, y, z, w}); }
// If late, it reads the source only when the thread waits for the copy.
inline void send_box(u32 from, const void* map, int x, int y, int z) {
  const TileMap& m = map_at(map);
  if (from % 1024 != 0 || m.box[0] * m.size != 128 || m.rank != 3) std::fprintf(stderr, "a box from %u\n", from), std::abort();
  auto copy = [=, &m] {
    for (i64 k = 0; k < m.box[2]; ++k) {
      for (i64 i = 0; i < m.box[0]; ++i) {
        if (x + i >= m.dims[0] || z + k >= m.dims[2]) continue;
        u32 at = from + (u32)(k * 128 + i * m.size);
        at ^= (at >> 7 & 7) << 4;
        std::memcpy((char*)m.memory + (x + i) * m.size + y * m.strides[0] + (z + k) * m.strides[1], shared(at), m.size);
      }
    }
  };
  me().sent.push_back(copy);
}
inline void send_now() {
  for (auto& copy : me().sent) copy();
  me().sent.clear();
}
inline void commit_sent() {
  if (!late) send_now();
  me().committed = me().sent.size();
}
inline void wait_sent() {
  if (me().committed != me().sent.size()) std::fprintf(stderr, "a wait for boxes that are not committed\n"), std::abort();
  send_now();
  me().committed = 0;
}
// `begin`: position w, h (, d) and n; `by`: offset of the tap in w, h (, d).
inline void copy_pixels(u32 to, const void* map, u32 barrier, int c, std::vector<i64> begin, std::vector<i64> by) {
  const TileMap& m = map_at(map);
  const i64 axes = (i64)by.size(), furthest = axes == 2 ? 128 : 16, max_taps = axes == 2 ? 255 : 31;
  bool good = to % 1024 == 0 && m.box[0] * m.size == 128 && m.rank == axes + 2;
  for (i64 d = 0; d < axes; ++d) good = good && by[d] >= 0 && by[d] <= max_taps && m.lower[d] >= -furthest && m.lower[d] < furthest && m.upper[d] >= -furthest && m.upper[d] < furthest;
  if (!good) std::fprintf(stderr, "pixels to %u\n", to), std::abort();
  copy_later(barrier, (u32)(m.box[0] * m.box[1] * m.size), [=, &m] {
    std::vector<i64> at = begin;
    for (i64 pixel = 0; pixel < m.box[1]; ++pixel) {
      bool there = at[axes] < m.dims[axes + 1];
      i64 offset = at[axes] * m.strides[axes];
      for (i64 d = 0; d < axes; ++d) {
        const i64 x = at[d] + by[d];
        there = there && x >= 0 && x < m.dims[d + 1];
        offset += x * m.strides[d];
      }
      for (i64 i = 0; i < m.box[0]; ++i) vector_to(m, to, pixel, i, there && c + i < m.dims[0] ? m.memory + (c + i) * m.size + offset : nullptr);
      i64 d = 0;
      for (; d < axes; ++d) {
        at[d] += m.steps[d + 1];
        if (at[d] <= m.dims[d + 1] - 1 + m.upper[d]) break;
        at[d] = m.lower[d];
      }
      if (d == axes) ++at[axes];
    }
  });
}
inline void copy_pixels_async(u32 to, const void* map, u32 barrier, int c, int w, int h, int n, int right, int down) {
  copy_pixels(to, map, barrier, c, {w, h, n}, {right, down});
}
inline void copy_pixels_async(u32 to, const void* map, u32 barrier, int c, int w, int h, int d, int n, int right, int down, int deep) {
  copy_pixels(to, map, barrier, c, {w, h, d, n}, {right, down, deep});
}
inline void show_to_matrix_units() {}
inline void computed(f32) {}
template <int N> void leave_registers() {}
template <int N> void take_registers() {}
template <int Groups> void meet_group() { meet_warps_of_group(); }
template <int Groups> void meet_groups() { meet(blocks[here].group_barriers[15], Groups * 128); }
template <int N> void hold(u32*) {}
template <int N> void hold(f32*) {}
inline void __syncwarp() { meet_warp(); }
inline void let_next_start() {}
inline void wait_for_others() {}
inline void after_others() {}
inline u64 tile_of(u32 address, u32 group) { return (u64)(address >> 4 & 0x3fffu) | (u64)(group >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62; }
// The address of an element as the instruction computes it: rows of 128 bytes whose 16-byte vectors are permuted by address bits.
template <class H> f32 element(u64 tile, bool along_k, u32 row, u32 k) {
  const u32 start = (u32)(tile & 0x3fff) << 4, group = (u32)(tile >> 16 & 0x3fff) << 4, eight = (u32)(tile >> 32 & 0x3fff) << 4;
  u32 at = start + (along_k ? row % 8 * 128 + row / 8 * eight + k * sizeof(H) : row % 64 * 2 + row / 64 * group + k % 8 * 128 + k / 8 * eight);
  at ^= (at >> 7 & 7) << 4;
  if constexpr (sizeof(H) == 4) {
    u32 bits;
    std::memcpy(&bits, shared(at), 4);
    return as_tf32(bits);
  }
  H h;
  std::memcpy(&h, shared(at), sizeof h);
  return value(h);
}
// Rows of A in fragments are read when the product begins.
template <int Columns, bool AlongK, class H> void multiply_rows(f32* c, const u32* a, u64 b, H) {
  Fragments* all = blocks[here].fragments[current / 32];
  const u32 lane = current % 32;
  std::memcpy(all[lane].a, a, 16);
  meet_warp();
  std::array<f32, 32> rows;
  for (u32 k = 0; k < 32; ++k) {
    const u32 both = all[lane / 4 * 4 + k % 8 / 2].a[k / 16 + k % 16 / 8 * 2];
    H h;
    h.bits = (unsigned short)(both >> 16 * (k % 2));
    rows[k] = value(h);
  }
  meet_warp();
  auto product = [=] {
    for (u32 j = 0; j < Columns / 8; ++j) {
      for (u32 e = 0; e < 4; ++e) {
        for (u32 k = 0; k < 16; ++k) c[j * 4 + e] += rows[e / 2 * 16 + k] * element<H>(b, AlongK, j * 8 + lane % 4 * 2 + e % 2, k);
      }
    }
  };
  if (late) {
    me().products.push_back(product);
  } else {
    product();
  }
}
template <int Columns, bool AlongK, class H> void multiply_tiles(f32* c, u64 a, u64 b, H, bool add) {
  const u32 warp = current / 32 % 4, lane = current % 32;
  auto product = [=] {
    if (!add) std::fill_n(c, Columns / 2, 0.0f);
    for (u32 j = 0; j < Columns / 8; ++j) {
      for (u32 e = 0; e < 4; ++e) {
        const u32 row = warp * 16 + lane / 4 + e / 2 * 8, column = j * 8 + lane % 4 * 2 + e % 2;
        for (u32 k = 0; k < 32 / sizeof(H); ++k) c[j * 4 + e] += element<H>(a, true, row, k) * element<H>(b, AlongK, column, k);
      }
    }
  };
  if (late) {
    me().products.push_back(product);
  } else {
    product();
  }
}
