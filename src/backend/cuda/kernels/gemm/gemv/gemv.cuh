// Adds `count` (a power of 2) sums of each lane over the warp, halving their number in each step: lane l gets sum l / (32 / count).
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
// Sixteen bytes of B, and as many elements of A. B is of A's type, or int8.
template <class H>
__device__ __forceinline__ f32 dot_vector(f32 sum, const uint4*, const uint4&, i8) { return sum; }
template <class H>
__device__ __forceinline__ f32 dot_vector(f32 sum, const uint4* x, const uint4& y, H) {
  const H *a = (const H*)x, *b = (const H*)&y;
#pragma unroll
  for (int e = 0; e < 8; ++e) sum = fmaf(value(a[e]), value(b[e]), sum);
  return sum;
}
// Multiplies sixteen int8 of a column by as many halves of A. In the fragments, the first eight rows are columns of B, and all columns are A. Which element
// of K is where is the same on both sides, so that a lane's elements may be contiguous in memory.
__device__ __forceinline__ void add_products_of_int8(f32* sums, const u32* x, const uint4& y) {
  const u32 words[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    const u32 four = words[t] ^ 0x80808080u;
    // After the bits of 1024 a byte is exact.
    const u32 w[4] = {minus_halves(__byte_perm(four, 0x64646464u, 0x4140u), 0x64806480u), 0u, minus_halves(__byte_perm(four, 0x64646464u, 0x4342u), 0x64806480u), 0u};
    multiply(sums + t % 2 * 4, w, x + 2 * t, f16());
  }
}
// Converts the row to halves in place, times a power of 2 that scales the largest into the upper half of the range, so that rounding is
// negligible relative to it. Returns the inverse of that power.
__device__ __forceinline__ f32 row_to_halves(f16*, i64, f32*, f16) { return 1.0f; }
__device__ __forceinline__ f32 row_to_halves(f16* row, i64 k, f32* shared, bf16) {
  constexpr int warps = gemv_threads / 32;
  const bf16* const from = (const bf16*)row;
  f32 largest = 0.0f;
  for (i64 e = threadIdx.x * 8; e < k; e += gemv_threads * 8) {
    alignas(16) bf16 eight[8];
    read<8>(eight, from + e);
#pragma unroll
    for (int i = 0; i < 8; ++i) largest = fmaxf(largest, fabsf(value(eight[i])));
  }
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = largest;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < warps; ++w) largest = fmaxf(largest, shared[w]);
  const u32 bits = __float_as_uint(largest) >> 23, exponent = bits == 255 ? 141u : bits < 15 ? 15u : bits;  // 141: times 1
  const f32 by = __uint_as_float((268u - exponent > 254u ? 254u : 268u - exponent) << 23), back = __uint_as_float((exponent - 14u) << 23);
  for (i64 e = threadIdx.x * 8; e < k; e += gemv_threads * 8) {
    alignas(16) bf16 eight[8];
    alignas(16) f16 out[8];
    read<8>(eight, from + e);
#pragma unroll
    for (int i = 0; i < 8; i += 2) put2(out + i, value(eight[i]) * by, value(eight[i + 1]) * by);
    write<8>(row + e, out);
  }
  __syncthreads();
  return back;
}
template <bool Aligned, class B>
__device__ __forceinline__ uint4 load_vector_of_b(const B* from, bool there) {
  uint4 out = make_uint4(0, 0, 0, 0);
  if (Aligned) {
    if (there) out = streamed(from);
  } else if (there) {
#pragma unroll
    for (int e = 0; e < 16 / (int)sizeof(B); ++e) ((B*)&out)[e] = from[e];
  }
  return out;
}
// The row of A: in memory, or computed in shared memory by all threads of the block.
struct RowInMemory {
  static constexpr bool made = false;
  template <class H>
  __device__ __forceinline__ void operator()(H*) const {}
};
// One row times columns that are contiguous along K: only reading B counts. A block takes eight columns at a time, and its threads take vectors of each step of K. The next
// vectors, also those of the next columns, are loaded while these are multiplied. While a prologue computes the row, the first columns are prefetched to the
// second-level cache only: registers would have to hold them all that time, and the compiler would rather load them later. With a gated epilogue, a block
// takes eight columns of the first half and then the same eight of the second.
template <class H, class B, bool Aligned, bool Constant, class Finish, class Row = RowInMemory>
__device__ __forceinline__ void gemv_along_k(const GemvParameters& p, Finish finish, Row row = Row()) {
  // Int8 goes through matrix instructions: four lanes hold 16 adjacent elements each of a column, and a warp holds eight such columns. Shared memory has A
  // and two iterations of B (each thread's own vectors), which are copied while A is computed and other vectors are multiplied.
  constexpr bool int8 = sizeof(B) == 1;
  constexpr int threads = gemv_threads, warps = threads / 32, halves = Finish::halves, each = 16 / (int)sizeof(B), step = threads * each;
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  f32* const shared = (f32*)tiles_of_block;  // [2][halves][warps][8], then the row if there is a prologue
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 groups = p.size.n / 8;
  const int k_steps = (int)((p.size.k + step - 1) / step);
  H* const own = (H*)(shared + 2 * halves * warps * 8);
  const H* const a = Row::made ? own : (const H*)p.matrices.a + p.matrices.base;
  const i64 first = int8 ? warp * 512 + lane % 4 * each : threadIdx.x * each;
  i64 group = blockIdx.x, at = first;  // of what is loaded next
  int k_step = 0, half = 0;
  uint4* const ring = (uint4*)(own + p.size.k) + threadIdx.x;
  int slot = 0;
  uint4 next[8], x[each / 8];
  const B* columns = finish.template column_of<B>(p.matrices, group * 8);
  auto load_columns = [&] {
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const i64 k = int8 ? at + c * 64 : at, column = int8 ? lane / 4 : c;
      const bool there = group < groups && k < p.size.k;
      const B* const from = columns + (there ? column * p.matrices.b_step + k : 0);
      if constexpr (int8 && Aligned) {
        copy_async_or_zero(shared_address(ring + (slot * 8 + c) * threads), from, there ? 16u : 0u);
      } else if constexpr (int8) {
        ring[(slot * 8 + c) * threads] = load_vector_of_b<false>(from, there);
      } else {
        next[c] = load_vector_of_b<Aligned>(from, there);
      }
    }
    if (int8) commit_copies(), slot ^= 1;
  };
  auto load_row = [&] {
#pragma unroll
    for (int i = 0; i < (int8 ? 0 : each / 8); ++i) {
      x[i] = make_uint4(0, 0, 0, 0);
      if (at >= p.size.k) continue;
      if (Aligned || Row::made) {
        x[i] = *(const uint4*)(a + at + i * 8);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) ((H*)&x[i])[e] = a[at + i * 8 + e];
      }
    }
    at += step;
    if (++k_step == k_steps) {
      k_step = 0;
      at = first;
      if (++half == halves) {
        half = 0;
        group += gridDim.x;
        if (group >= groups) let_next_start();  // all loads of B are issued
      }
      columns = finish.template column_of<B>(p.matrices, half * p.size.n + group * 8);  // eight from a multiple of eight on are in one matrix
    }
  };
  if constexpr (int8) {
    if (!Constant) wait_for_others();
    for (int i = 0; i < 2; ++i) load_columns(), load_row();
    if (Constant) wait_for_others();
    if (Row::made) {
      row(own);
    } else {
      for (i64 e = threadIdx.x * 8; e < p.size.k; e += threads * 8) {
        alignas(16) H eight[8];
        load_neighbours<Aligned>(eight, a + e);
        write<8>(own + e, eight);
      }
    }
    __syncthreads();
  } else if (Row::made) {
    constexpr int ahead = 2 * step;
    if (Aligned && lane == 0) prefetch_to_l2(columns + warp * p.matrices.b_step, (u32)(p.size.k < ahead ? p.size.k : ahead) * (u32)sizeof(B));
    wait_for_others();
    row(own);
    __syncthreads();
    load_columns();
  } else {
    if (!Constant) wait_for_others();
    load_columns();
    if (Constant) wait_for_others();
  }
  f32 times = 1.0f;  // the factor by which A's elements were divided
  if constexpr (int8) times = row_to_halves((f16*)own, p.size.k, shared, H());
  if (!int8) load_row();
  int side = 0;
  for (i64 mine = blockIdx.x; mine < groups; mine += gridDim.x) {
    typename Finish::Held held;
    if (threadIdx.x == 0) finish.load(held, 0, mine * 8);
    f32* const all = shared + side * halves * warps * 8;
#pragma unroll 1
    for (int h = 0; h < halves; ++h) {
      f32 sums[8];
#pragma unroll
      for (int c = 0; c < 8; ++c) sums[c] = 0.0f;
      for (int k = 0; int8 && k < k_steps; ++k) {
        uint4 now[8];
        wait_copies<1>();
#pragma unroll
        for (int c = 0; c < 8; ++c) now[c] = ring[(slot * 8 + c) * threads];
        load_columns();
        load_row();
#pragma unroll
        for (int c = 0; c < 8; ++c) {
          const i64 place = k * (i64)step + first + c * 64;
          uint4 two[2] = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)};
          if (place < p.size.k) two[0] = *(const uint4*)(own + place), two[1] = *(const uint4*)(own + place + 8);
          add_products_of_int8(sums, (const u32*)two, now[c]);
        }
      }
      for (int k = 0; !int8 && k < k_steps; ++k) {
        uint4 now[8], left[each / 8];
#pragma unroll
        for (int i = 0; i < each / 8; ++i) left[i] = x[i];
#pragma unroll
        for (int c = 0; c < 8; ++c) now[c] = next[c];
        load_columns();
        load_row();
#pragma unroll
        for (int c = 0; c < 8; ++c) sums[c] = dot_vector<H>(sums[c], left, now[c], B());
      }
      const f32 sum = int8 ? (sums[0] + sums[4]) * times : sums_of_warp<8>(sums);
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
