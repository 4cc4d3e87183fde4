// Of `count` (a power of 2) sums of each lane those of the whole warp, halving them as it goes: lane l has that of lane l / (32 / count).
template <int Count>
__device__ __forceinline__ f32 sums_of_warp(f32* sums) {
#pragma unroll
  for (int n = Count, lanes = 16; n > 1; n /= 2, lanes /= 2) {
    const bool upper = threadIdx.x & lanes;
#pragma unroll
    for (int e = 0; e < n / 2; ++e) {
      const f32 other = __shfl_xor_sync(0xffffffffu, upper ? sums[e] : sums[e + n / 2], lanes);
      sums[e] = (upper ? sums[e + n / 2] : sums[e]) + other;
    }
  }
#pragma unroll
  for (int lanes = 16 / Count; lanes > 0; lanes /= 2) sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], lanes);
  return sums[0];
}
// Sixteen bytes of B, and as many elements of A: B is of A's type, or int8.
template <class H>
__device__ __forceinline__ f32 sum_of_piece(f32 sum, const uint4* x, const uint4& y, H) {
  const H *a = (const H*)x, *b = (const H*)&y;
#pragma unroll
  for (int e = 0; e < 8; ++e) sum = fmaf(value(a[e]), value(b[e]), sum);
  return sum;
}
template <class H>
__device__ __forceinline__ f32 sum_of_piece(f32 sum, const uint4* x, const uint4& y, i8) {
  const H* a = (const H*)x;
  const u32* b = (const u32*)&y;
#pragma unroll
  for (int e = 0; e < 16; ++e) sum = fmaf(value(a[e]), int8_of(b[e / 4], e % 4), sum);
  return sum;
}
template <bool Aligned, class B>
__device__ __forceinline__ uint4 piece_of_b(const B* from, bool there) {
  uint4 out = make_uint4(0, 0, 0, 0);
  if (Aligned) {
    if (there) out = streamed(from);
  } else if (there) {
#pragma unroll
    for (int e = 0; e < 16 / (int)sizeof(B); ++e) ((B*)&out)[e] = from[e];
  }
  return out;
}
// The row is what the parameters say; else all threads of a block make it, in shared memory.
struct RowInMemory {
  static constexpr bool made = false;
  template <class H>
  __device__ __forceinline__ void operator()(H*) const {}
};
// Column c of B, whose columns are in `Apart` matrices one beside another; eight that begin at a multiple of it are in one.
template <class B, int Apart>
__device__ __forceinline__ const B* column_of(const ImplicitGemmParameters& p, i64 c) {
  u64 matrix = p.b;
  i64 from = 0;
#pragma unroll
  for (int i = 1; i < Apart; ++i) {
    if (c >= p.beside_from[i - 1]) {
      matrix = p.beside[i - 1];
      from = p.beside_from[i - 1];
    }
  }
  return (const B*)matrix + (c - from) * p.b_step;
}
// One row by columns that lie along K: nothing but reading B counts. A block takes eight columns at a time, its threads pieces of K; the next pieces are on
// their way while these are multiplied, also those of the next columns. While a row is made the first columns come as near as the second-level cache:
// registers would have to hold them for all that time, and the compiler rather asks later. Where both halves of the columns meet in the body, a block takes eight
// of the first and then the same eight of the second.
template <class H, class B, bool Aligned, bool Constant, class Finish, class Row = RowInMemory>
__device__ __forceinline__ void row_through_columns(const ImplicitGemmParameters& p, Finish finish, Row row = Row()) {
  constexpr int threads = implicit_gemm_row_threads, warps = threads / 32, halves = Finish::halves, each = 16 / (int)sizeof(B), step = threads * each;
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  f32* const shared = (f32*)tiles_of_block;  // [2][halves][warps][8], and the row if it is made
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 groups = p.n / 8;
  const int pieces = (int)((p.k + step - 1) / step);
  H* const own = (H*)(shared + 2 * halves * warps * 8);
  const H* const a = Row::made ? own : (const H*)p.a + p.base;
  i64 group = blockIdx.x, at = threadIdx.x * each;  // of what is brought next
  int piece = 0, half = 0;
  uint4 next[8], x[each / 8];
  const B* columns = column_of<B, Finish::apart>(p, group * 8);
  auto load_columns = [&] {
    const bool there = group < groups && at < p.k;
    const B* const from = columns + at;
#pragma unroll
    for (int c = 0; c < 8; ++c) next[c] = piece_of_b<Aligned>(from + (there ? c * p.b_step : 0), there);
  };
  auto load_row = [&] {
#pragma unroll
    for (int i = 0; i < each / 8; ++i) {
      x[i] = make_uint4(0, 0, 0, 0);
      if (at >= p.k) continue;
      if (Aligned || Row::made) {
        x[i] = *(const uint4*)(a + at + i * 8);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) ((H*)&x[i])[e] = a[at + i * 8 + e];
      }
    }
    at += step;
    if (++piece == pieces) {
      piece = 0;
      at = threadIdx.x * each;
      if (++half == halves) {
        half = 0;
        group += gridDim.x;
      }
      columns = column_of<B, Finish::apart>(p, half * p.n + group * 8);
    }
  };
  if (Row::made) {
    constexpr int ahead = 2 * step;
    if (Aligned && lane == 0) prefetch_to_l2(columns + warp * p.b_step, (u32)(p.k < ahead ? p.k : ahead) * (u32)sizeof(B));
    wait_for_others();
    row(own);
    __syncthreads();
    load_columns();
  } else {
    if (!Constant) wait_for_others();
    load_columns();
    if (Constant) wait_for_others();
  }
  load_row();
  int side = 0;
  for (i64 mine = blockIdx.x; mine < groups; mine += gridDim.x) {
    typename Finish::Held held;
    if (threadIdx.x == 0) finish.bring(held, 0, mine * 8);
    f32* const all = shared + side * halves * warps * 8;
#pragma unroll 1
    for (int h = 0; h < halves; ++h) {
      f32 sums[8];
#pragma unroll
      for (int c = 0; c < 8; ++c) sums[c] = 0.0f;
      for (int k = 0; k < pieces; ++k) {
        uint4 now[8], left[each / 8];
#pragma unroll
        for (int i = 0; i < each / 8; ++i) left[i] = x[i];
#pragma unroll
        for (int c = 0; c < 8; ++c) now[c] = next[c];
        load_columns();
        load_row();
#pragma unroll
        for (int c = 0; c < 8; ++c) sums[c] = sum_of_piece<H>(sums[c], left, now[c], B());
      }
      const f32 sum = sums_of_warp<8>(sums);
      if (lane % 4 == 0) all[(h * warps + warp) * 8 + lane / 4] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      f32 sums[8 * halves];
#pragma unroll
      for (int c = 0; c < 8 * halves; ++c) sums[c] = 0.0f;
#pragma unroll
      for (int w = 0; w < warps; ++w) {
#pragma unroll
        for (int c = 0; c < 8 * halves; ++c) sums[c] += all[(c / 8 * warps + w) * 8 + c % 8];
      }
      finish(0, mine * 8, sums, held, true);
    }
    side ^= 1;
  }
}
