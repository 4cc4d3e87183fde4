#ifdef INGOT_WARPGROUPS
constexpr bool has_groups = true;
#else
constexpr bool has_groups = false;
#endif
// A row of a tile in shared memory has 128 bytes: E elements (64 halves or 32 floats), in vectors of 16 bytes. A tile of A is [rows][E of K]. A tile of B is
// [columns][E of K] if B is contiguous along K, else [columns / E][E of K][E columns].
// Copies the first `count` elements of a vector, from any address, to shared memory; the others become zero.
template <class H>
__device__ __forceinline__ void copy_some_async(H* to, const H* from, int count) {
  constexpr int each = 16 / (int)sizeof(H);
  if (count >= each && (u64)from % 16 == 0) {
    copy_async_or_zero(shared_address(to), from, 16u);
    return;
  }
  alignas(16) H vector[each];
#pragma unroll
  for (int e = 0; e < each; ++e) vector[e] = e < count ? from[e] : H{};
  write<each>(to, vector);
}
// An int8 among four becomes exact after the bits of 2^23, with one instruction; integer conversions are slow.
__device__ __forceinline__ f32 int8_of(u32 four, int e) { return of_bits(__byte_perm(four ^ 0x80808080u, 0x4b000000u, 0x7440u + (u32)e)) - 8388736.0f; }
// The first eight int8 as numbers of H, the others zero.
template <class H>
__device__ __forceinline__ void load_int8(H* to, const i8* from, int count) {
  alignas(8) u32 eight[2] = {0, 0};
  if (count >= 8 && (u64)from % 8 == 0) {
    read<8>((i8*)eight, from);
  } else {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (e < count) ((i8*)eight)[e] = from[e];
    }
  }
  alignas(16) H numbers[8];
#pragma unroll
  for (int e = 0; e < 8; e += 2) put2(numbers + e, int8_of(eight[e / 4], e % 4), int8_of(eight[e / 4], e % 4 + 1));
  write<8>(to, numbers);
}
// The bits of an element of B in a word.
template <class H>
__device__ __forceinline__ u32 bits_of_element(H x) { return x.bits; }
__device__ __forceinline__ u32 bits_of_element(f32 x) { return rounded_to_tf32(__float_as_uint(x)); }
// For epilogues: eight adjacent elements of an operand at once, or one by one.
template <bool Together, class M>
__device__ __forceinline__ void load_neighbours(M* to, const M* at) {
  if (Together) {
    read<8>(to, at);
  } else {
#pragma unroll
    for (int v = 0; v < 8; ++v) to[v] = at[v];
  }
}
// N elements that are constant over rows and that no store of this kernel writes: ordered freely with stores.
template <int N, bool Together, class M>
__device__ __forceinline__ void load_constants(M* to, const M* at) {
  if (Together) {
    read_constant<N>(to, at);
  } else {
#pragma unroll
    for (int v = 0; v < N; ++v) to[v] = at[v];
  }
}
template <bool Together, class M>
__device__ __forceinline__ void put_neighbours(M* at, const M* from) {
  if (Together) {
    write<8>(at, from);
  } else {
#pragma unroll
    for (int v = 0; v < 8; ++v) at[v] = from[v];
  }
}
// Where a row of an operand begins: rows of one axis, or of N axes, the innermost first.
struct RowsOfOneAxis {
  i64 step;
  __device__ __forceinline__ i64 operator()(i64 s) const { return s * step; }
};
template <int N>
struct RowsOfAxes {
  u32 extent[N - 1];
  i64 step[N];
  __device__ __forceinline__ i64 operator()(i64 s) const {
    u32 rest = (u32)s;
    i64 at = 0;
#pragma unroll
    for (int i = 0; i + 1 < N; ++i) {
      at += (i64)(rest % extent[i]) * step[i];
      rest /= extent[i];
    }
    return at + (i64)rest * step[N - 1];
  }
};
// An epilogue processes eight elements at a time: eight adjacent elements of a row,
struct EightOfRow {
  static constexpr bool tiled = false;
  static constexpr int rows = 1, columns = 8;
  i64 s, t;
  bool inside;
  static __device__ __forceinline__ int row_of(int) { return 0; }
  static __device__ __forceinline__ int column_of(int v) { return v; }
  __device__ __forceinline__ i64 row(int) const { return s; }
  __device__ __forceinline__ i64 column(int v) const { return t + v; }
  // Of a tensor that is constant over rows; Before: see PairsOfTwoRows.
  template <bool Together, int Before, class M>
  __device__ __forceinline__ void constants(M* to, const M* from) const { load_constants<8, Together>(to, from + t); }
  template <bool Together, class M, class Rows>
  __device__ __forceinline__ void load(M* to, const M* from, const Rows& rows) const { load_neighbours<Together>(to, from + rows(s) + t); }
  // One row per batch of `rows` rows.
  template <bool Together, class M>
  __device__ __forceinline__ void load_of_batch(M* to, const M* from, i64 step, u32 rows) const {
    load_neighbours<Together>(to, from + (i64)((u32)s / rows) * step + t);
  }
  template <bool Together, class M, class Rows>
  __device__ __forceinline__ void put(M* to, const Rows& rows, const M* from) const {
    if (inside) put_neighbours<Together>(to + rows(s) + t, from);
  }
  template <class M, class Rows>
  __device__ __forceinline__ void store_strided(M* to, const Rows& rows, i64 stride, const M* from) const {
#pragma unroll
    for (int v = 0; inside && v < 8; ++v) to[rows(s) + (t + v) * stride] = from[v];
  }
};
// or what a lane holds of two groups of eight columns in Hopper's sums: two adjacent elements each, in two rows. If a row or column is outside, s and t are
// still inside. Operands that are constant over rows were loaded to `Before` bytes per column before the tile; -1: they were not.
struct PairsOfTwoRows {
  static constexpr bool tiled = true;
  static constexpr int rows = 2, columns = 4;
  int s[2], t[2];
  bool in_rows[2], in_columns[2];
  const char* room;
  int width, in_tile;  // columns of the tile, and those of them before these
  static __device__ __forceinline__ int row_of(int v) { return v / 2 % 2; }
  static __device__ __forceinline__ int column_of(int v) { return v / 4 * 2 + v % 2; }
  __device__ __forceinline__ i64 row(int v) const { return s[row_of(v)]; }
  __device__ __forceinline__ i64 column(int v) const { return t[v / 4] + v % 2; }
  template <bool Together, int Before, class M>
  __device__ __forceinline__ void constants(M* to, const M* from) const {
    if (Before < 0) {
      load_constants<2, Together>(to, from + t[0]);
      load_constants<2, Together>(to + 2, from + t[1]);
    } else {
      const M* const fetched = (const M*)(room + Before * width) + in_tile;
      read<2>(to, fetched);
      read<2>(to + 2, fetched + 8);
    }
  }
  template <bool Together, class M, class Rows>
  __device__ __forceinline__ void load(M* to, const M* from, const Rows& rows) const {
#pragma unroll
    for (int v = 0; v < 8; v += 2) read<2>(to + v, from + rows(row(v)) + column(v));
  }
  template <bool Together, class M>
  __device__ __forceinline__ void load_of_batch(M* to, const M* from, i64 step, u32 rows) const {
#pragma unroll
    for (int v = 0; v < 8; v += 2) read<2>(to + v, from + (i64)((u32)row(v) / rows) * step + column(v));
  }
  template <bool Together, class M, class Rows>
  __device__ __forceinline__ void put(M* to, const Rows& rows, const M* from) const {
#pragma unroll
    for (int v = 0; v < 8; v += 2) {
      if (in_rows[row_of(v)] && in_columns[v / 4]) write<2>(to + rows(row(v)) + column(v), from + v);
    }
  }
  template <class M, class Rows>
  __device__ __forceinline__ void store_strided(M* to, const Rows& rows, i64 stride, const M* from) const {
#pragma unroll
    for (int v = 0; v < 8; ++v) {
      if (in_rows[row_of(v)] && in_columns[v / 4]) to[rows(row(v)) + column(v) * stride] = from[v];
    }
  }
};
// The eight elements of PairsOfTwoRows in boxes, as matrices of halves or in pairs of floats. Their rows differ by eight, their vectors by two.
template <class M>
__device__ __forceinline__ void from_boxes(M* to, u32 at) {
  if constexpr (sizeof(M) == 2) {
    four_matrices((u32*)to, at);
  } else {
#pragma unroll
    for (int v = 0; v < 8; v += 2) two_words((u32*)(to + v), (at ^ (u32)(v / 4 * 32)) + v / 2 % 2 * 1024);
  }
}
template <class M>
__device__ __forceinline__ void to_boxes(u32 at, const M* from) {
  if constexpr (sizeof(M) == 2) {
    put_four_matrices(at, (const u32*)from);
  } else {
#pragma unroll
    for (int v = 0; v < 8; v += 2) put_two_words((at ^ (u32)(v / 4 * 32)) + v / 2 % 2 * 1024, (const u32*)(from + v));
  }
}
// Before, four lanes hold columns 2 q and 2 q + 1 (q = lane % 4) of four groups of eight; afterwards lane q holds all eight columns of group q.
__device__ __forceinline__ void gather_eight(f32* out, const f32 (&in)[4][2]) {
  const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
  f32 half[4][2];
#pragma unroll
  for (int a = 0; a < 4; a += 2) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const f32 own = odd ? in[a + 1][e] : in[a][e], other = __shfl_xor_sync(0xffffffffu, odd ? in[a][e] : in[a + 1][e], 1);
      half[a][e] = odd ? other : own;
      half[a + 1][e] = odd ? own : other;
    }
  }
#pragma unroll
  for (int s = 0; s < 2; ++s) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const f32 own = upper ? half[2 + s][e] : half[s][e], other = __shfl_xor_sync(0xffffffffu, upper ? half[s][e] : half[2 + s][e], 2);
      out[2 * s + e] = upper ? other : own;
      out[4 + 2 * s + e] = upper ? own : other;
    }
  }
}
// One block's partial sums of two adjacent elements.
__device__ __forceinline__ void put_part(const GemmExtents& size, const GemmShares& shares, int split, i64 row, i64 column, const f32* two) {
  if (row < size.m && column < size.n) write<2>((f32*)shares.parts + (split * size.m + row) * size.n + column, two);
}
// Adds the sums of several blocks, always in the same order.
template <class Finish>
__device__ __forceinline__ void finish_gemm(const FinishParameters& p, Finish finish) {
  after_others();
  const i64 eight = (i64)blockIdx.x * gemm_finish_threads + threadIdx.x, row = eight / (p.size.n / 8), column = eight % (p.size.n / 8) * 8;
  if (row >= p.size.m) return;
  const float4* from = (const float4*)p.shares.parts + eight * 2;
  f32 sums[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) sums[e] = 0.0f;
#pragma unroll 4
  for (int s = 0; s < p.shares.splits; ++s) {
    const float4 first = from[s * p.size.m * (p.size.n / 4)], second = from[s * p.size.m * (p.size.n / 4) + 1];
    sums[0] += first.x, sums[1] += first.y, sums[2] += first.z, sums[3] += first.w;
    sums[4] += second.x, sums[5] += second.y, sums[6] += second.z, sums[7] += second.w;
  }
  finish(row, column, sums);
}
