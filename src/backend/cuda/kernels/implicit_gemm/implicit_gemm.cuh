// Tiles in shared memory: A is [rows][64 of K]; B is [columns][64 of K] if contiguous along K, else [columns / 64][64 of K][64 columns].
// Copies eight elements to shared memory: the first `count` from any address, zeros for the rest.
template <class H>
__device__ __forceinline__ void copy_some_async(H* to, const H* from, int count) {
  if (count >= 8 && (u64)from % 16 == 0) {
    copy_async_or_zero(shared_address(to), from, 16u);
    return;
  }
  alignas(16) H eight[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    eight[e].bits = 0;
    if (e < count) eight[e] = from[e];
  }
  write<8>(to, eight);
}
// An int8 among four becomes exact after the bits of 2^23, with one instruction; integer conversions are slow.
__device__ __forceinline__ f32 int8_of(u32 four, int e) { return of_bits(__byte_perm(four ^ 0x80808080u, 0x4b000000u, 0x7440u + (u32)e)) - 8388736.0f; }
// The first eight int8 as numbers of H, the others zero.
template <class H>
__device__ __forceinline__ void bring_int8(H* to, const i8* from, int count) {
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
// For epilogues: eight adjacent elements of an operand at once, or one by one.
template <bool Together, class M>
__device__ __forceinline__ void bring_neighbours(M* to, const M* at) {
  if (Together) {
    read<8>(to, at);
  } else {
#pragma unroll
    for (int v = 0; v < 8; ++v) to[v] = at[v];
  }
}
// N elements that are constant over rows and that no store of this kernel writes: ordered freely with stores.
template <int N, bool Together, class M>
__device__ __forceinline__ void bring_constants(M* to, const M* at) {
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
  __device__ __forceinline__ void constants(M* to, const M* from) const { bring_constants<8, Together>(to, from + t); }
  template <bool Together, class M>
  __device__ __forceinline__ void bring(M* to, const M* from, i64 step) const { bring_neighbours<Together>(to, from + s * step + t); }
  // One row per batch of `rows` rows.
  template <bool Together, class M>
  __device__ __forceinline__ void bring_of_batch(M* to, const M* from, i64 step, u32 rows) const {
    bring_neighbours<Together>(to, from + (i64)((u32)s / rows) * step + t);
  }
  template <bool Together, class M>
  __device__ __forceinline__ void put(M* to, i64 step, const M* from) const {
    if (inside) put_neighbours<Together>(to + s * step + t, from);
  }
  template <class M>
  __device__ __forceinline__ void put_apart(M* to, i64 step, i64 apart, const M* from) const {
#pragma unroll
    for (int v = 0; inside && v < 8; ++v) to[s * step + (t + v) * apart] = from[v];
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
      bring_constants<2, Together>(to, from + t[0]);
      bring_constants<2, Together>(to + 2, from + t[1]);
    } else {
      const M* const fetched = (const M*)(room + Before * width) + in_tile;
      read<2>(to, fetched);
      read<2>(to + 2, fetched + 8);
    }
  }
  template <bool Together, class M>
  __device__ __forceinline__ void bring(M* to, const M* from, i64 step) const {
#pragma unroll
    for (int v = 0; v < 8; v += 2) read<2>(to + v, from + row(v) * step + column(v));
  }
  template <bool Together, class M>
  __device__ __forceinline__ void bring_of_batch(M* to, const M* from, i64 step, u32 rows) const {
#pragma unroll
    for (int v = 0; v < 8; v += 2) read<2>(to + v, from + (i64)((u32)row(v) / rows) * step + column(v));
  }
  template <bool Together, class M>
  __device__ __forceinline__ void put(M* to, i64 step, const M* from) const {
#pragma unroll
    for (int v = 0; v < 8; v += 2) {
      if (in_rows[row_of(v)] && in_columns[v / 4]) write<2>(to + row(v) * step + column(v), from + v);
    }
  }
  template <class M>
  __device__ __forceinline__ void put_apart(M* to, i64 step, i64 apart, const M* from) const {
#pragma unroll
    for (int v = 0; v < 8; ++v) {
      if (in_rows[row_of(v)] && in_columns[v / 4]) to[row(v) * step + column(v) * apart] = from[v];
    }
  }
};
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
__device__ __forceinline__ void put_part(const ImplicitGemmParameters& p, int split, i64 row, i64 column, const f32* two) {
  if (row < p.m && column < p.n) write<2>((f32*)p.parts + (split * p.m + row) * p.n + column, two);
}
// A tile of D: BM x BN. `finish(row, column, sums)` gets eight adjacent elements of a row. It may load operands early: `finish.bring(held, row,
// column)`, then `finish(row, column, sums, held, stores)`.
template <class H, class B, int BM, int BN, int WM, int WN, bool AlongK, bool Aligned, class Finish>
__device__ __forceinline__ void product_through_map(const ImplicitGemmParameters& p, Finish finish) {
  constexpr int depth = implicit_gemm_depth, stages = implicit_gemm_stages, threads = BM / WM * (BN / WN) * 32;
  constexpr int eights = depth / 8, row_step = threads / eights, rows = BM / row_step;                                   // of A, per thread
  constexpr int b_eights = AlongK ? eights : BN / 8, b_step = threads / b_eights, b_rows = (AlongK ? BN : depth) / b_step;  // of B
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  H* const a_tiles = (H*)tiles_of_block;
  H* const b_tiles = a_tiles + stages * BM * depth;
  const int tiles_n = (int)((p.n + BN - 1) / BN), tiles_m = (int)((p.m + BM - 1) / BM);
  const int tile_n = blockIdx.x % tiles_n, tile_m = blockIdx.x / tiles_n % tiles_m, split = blockIdx.x / tiles_n / tiles_m;
  const i64 m0 = (i64)tile_m * BM, n0 = (i64)tile_n * BN, k0 = (i64)split * p.turns * depth;
  i64 k_end = k0 + (i64)p.turns * depth;
  if (k_end > p.k) k_end = p.k;
  const int turns = (int)((k_end - k0 + depth - 1) / depth);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  after_others();
  // This thread's part of A: the same eight of K in several rows. Loaded singly, elements of a row are far apart and those of a column close.
  const int my_row = Aligned ? threadIdx.x / eights : threadIdx.x % row_step, my_eight = Aligned ? threadIdx.x % eights : threadIdx.x / row_step;
  const H* from[rows];
  int guard[rows][2];
  bool live[rows];
  const H* const elsewhere = (const H*)(p.b / sizeof(H) * sizeof(H));  // B may be int8 at an odd address
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    i64 row = m0 + my_row + r * row_step;
    live[r] = row < p.m;
    u32 i = live[r] ? (u32)row : 0u;
    u32 i2 = i % (u32)p.m_extent[2], rest = i / (u32)p.m_extent[2], i1 = rest % (u32)p.m_extent[1], i0 = rest / (u32)p.m_extent[1];
    from[r] = (const H*)p.a + p.base + (i64)i0 * p.m_step[0] + (i64)i1 * p.m_step[1] + (i64)i2 * p.m_step[2];
#pragma unroll
    for (int g = 0; g < 2; ++g) guard[r][g] = p.origin[g] + (int)i0 * p.m_guard[g][0] + (int)i1 * p.m_guard[g][1] + (int)i2 * p.m_guard[g][2];
  }
  int k0_at, k1_at, k2_at;
  {
    u32 k = (u32)(k0 + my_eight * 8), rest = k / (u32)p.k_inner;
    k2_at = (int)(k % (u32)p.k_inner);
    k1_at = (int)(rest % (u32)p.k_extent[1]);
    k0_at = (int)(rest / (u32)p.k_extent[1]);
  }
  // Its part of B: eight elements in each of several rows of the tile (columns of B if B is contiguous along K).
  const int b_row = threadIdx.x / b_eights, b_eight = threadIdx.x % b_eights;
  const B* const b_from = AlongK ? (const B*)p.b + k0 + b_eight * 8 + (n0 + b_row) * p.b_step : (const B*)p.b + (k0 + b_row) * p.b_step + n0 + b_eight * 8;
  int brought = 0;
  auto copy_turn = [&] {
    if (brought < turns) {
      H* const at = a_tiles + brought % stages * BM * depth;
      H* const bt = b_tiles + brought % stages * BN * depth;
      const i64 offset = (i64)k0_at * p.k_step[0] + (i64)k1_at * p.k_step[1] + (Aligned ? k2_at : k2_at * p.k_step[2]);
      const int g0 = k0_at * p.k_guard[0][0] + k1_at * p.k_guard[0][1] + (Aligned ? 0 : k2_at * p.k_guard[0][2]);
      const int g1 = k0_at * p.k_guard[1][0] + k1_at * p.k_guard[1][1] + (Aligned ? 0 : k2_at * p.k_guard[1][2]);
      const bool k_live = k0_at < p.k_extent[0];
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        H* const to = at + piece_of(my_row + r * row_step, my_eight);
        if (Aligned) {
          const bool there = live[r] && k_live && (u32)(guard[r][0] + g0) < (u32)p.inside[0] && (u32)(guard[r][1] + g1) < (u32)p.inside[1];
          copy_async_or_zero(shared_address(to), there ? from[r] + offset : (const H*)p.b, there ? 16u : 0u);
        } else {
          // All eight loads are in flight before the first is needed. No branches: what is not there is loaded from elsewhere and dropped.
          alignas(16) H eight[8];
          const int y = guard[r][0] + g0, x = guard[r][1] + g1;
          const bool row_live = live[r] & k_live;
#pragma unroll
          for (int e = 0; e < 8; ++e) {
            const bool there = row_live & (k2_at + e < p.k_extent[2]) & ((u32)(y + e * p.k_guard[0][2]) < (u32)p.inside[0]) & ((u32)(x + e * p.k_guard[1][2]) < (u32)p.inside[1]);
            eight[e] = *(there ? from[r] + offset + e * p.k_step[2] : elsewhere);
            if (!there) eight[e].bits = 0;
          }
          write<8>(to, eight);
        }
      }
      k2_at += depth;
      while (k2_at >= p.k_inner) {
        k2_at -= p.k_inner;
        if (++k1_at == p.k_extent[1]) {
          k1_at = 0;
          ++k0_at;
        }
      }
#pragma unroll
      for (int r = 0; r < b_rows; ++r) {
        const int row = b_row + r * b_step;
        const i64 k = k0 + (i64)brought * depth + (AlongK ? b_eight * 8 : row), n = n0 + (AlongK ? row : b_eight * 8);
        const bool there = k < p.k && n < p.n;
        H* const to = bt + (AlongK ? piece_of(row, b_eight) : b_eight / 8 * 64 * depth + piece_of(row, b_eight % 8));
        if (Aligned) {
          const B* const source = AlongK ? b_from + (i64)brought * depth + r * b_step * p.b_step : b_from + ((i64)brought * depth + r * b_step) * p.b_step;
          if constexpr (sizeof(B) == 1) {
            bring_int8(to, there ? source : (const B*)p.b, there ? 8 : 0);
          } else {
            copy_async_or_zero(shared_address(to), there ? source : (const B*)p.b, there ? 16u : 0u);
          }
        } else {
          // B has no rows for the padding of A to eight.
          const i64 group = k / p.k_inner, own = k - group * p.k_inner, real = group * p.k_extent[2] + own;
          const int count = !there || own >= p.k_extent[2] ? 0 : AlongK ? (int)(p.k_extent[2] - own) : 8;
          const B* const source = (const B*)p.b + (count == 0 ? 0 : AlongK ? real + n * p.b_step : real * p.b_step + n);
          if constexpr (sizeof(B) == 1) {
            bring_int8(to, source, count);
          } else {
            copy_some_async(to, source, count);
          }
        }
      }
      ++brought;
    }
    commit_copies();
  };
#ifdef INGOT_WARPGROUPS
  // A group of four warps multiplies 64 rows by all columns.
  constexpr int tile_m_of = 1, tile_n_of = BN / 8;
  const int warp_m = warp * 16, warp_n = 0;
#else
  constexpr int tile_m_of = WM / 16, tile_n_of = WN / 8;
  const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;
#endif
  f32 sums[tile_m_of][tile_n_of][4];
#pragma unroll
  for (int i = 0; i < tile_m_of; ++i) {
#pragma unroll
    for (int j = 0; j < tile_n_of; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.0f;
    }
  }
#pragma unroll
  for (int s = 0; s + 1 < stages; ++s) copy_turn();
  for (int turn = 0; turn < turns; ++turn) {
    wait_copies<stages - 2>();
    const H* const at = a_tiles + turn % stages * BM * depth;
    const H* const bt = b_tiles + turn % stages * BN * depth;
#ifdef INGOT_WARPGROUPS
    // The previous iteration is done with its tiles, which the next copies replace.
    wait_multiplied<tile_n_of * 4>(sums[0][0]);
    show_to_matrix_units();
    __syncthreads();
    begin_multiplying<tile_n_of * 4>(sums[0][0]);
    const u64 a = tile_of(shared_address(at + warp / 4 * 64 * depth), 0), b = tile_of(shared_address(bt), 64 * depth * 2);
#pragma unroll
    for (int k = 0; k < depth / 16; ++k) multiply_tiles<BN, AlongK>(sums[0][0], a + k * 2, b + k * (AlongK ? 2 : 128), H(), true);
    multiplying();
    copy_turn();
#else
    __syncthreads();
    copy_turn();
#pragma unroll
    for (int k = 0; k < depth / 16; ++k) {
      u32 a[WM / 16][4], b[WN / 16][4];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) four_matrices(a[i], shared_address(at + piece_of(warp_m + i * 16 + lane % 16, k * 2 + lane / 16)));
#pragma unroll
      for (int j = 0; j < WN / 16; ++j) {
        if (AlongK) {
          four_matrices(b[j], shared_address(bt + piece_of(warp_n + j * 16 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2)));
        } else {
          const int piece = (warp_n + j * 16) / 8 + lane / 16;
          four_matrices_turned(b[j], shared_address(bt + piece / 8 * 64 * depth + piece_of(k * 16 + lane % 16, piece % 8)));
        }
      }
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) multiply(sums[i][j], a[i], b[j / 2] + j % 2 * 2, H());
      }
    }
#endif
  }
#ifdef INGOT_WARPGROUPS
  wait_multiplied<tile_n_of * 4>(sums[0][0]);
#endif
#pragma unroll
  for (int i = 0; i < tile_m_of; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 row = m0 + warp_m + i * 16 + lane / 4 + half * 8;
      if (p.splits > 1) {
#pragma unroll
        for (int j = 0; j < tile_n_of; ++j) put_part(p, split, row, n0 + warp_n + j * 8 + lane % 4 * 2, sums[i][j] + half * 2);
        continue;
      }
#pragma unroll
      for (int j = 0; j < tile_n_of; j += 4) {
        f32 pairs[4][2], eight[8];
#pragma unroll
        for (int g = 0; g < 4; ++g) {
          pairs[g][0] = sums[i][j + g][half * 2];
          pairs[g][1] = sums[i][j + g][half * 2 + 1];
        }
        gather_eight(eight, pairs);
        const i64 column = n0 + warp_n + (j + lane % 4) * 8;
        if (row < p.m && column < p.n) finish(row, column, eight);
      }
    }
  }
}
// Adds the sums of several blocks, always in the same order.
template <class Finish>
__device__ __forceinline__ void finish_product(const ImplicitGemmParameters& p, Finish finish) {
  after_others();
  const i64 eight = (i64)blockIdx.x * implicit_gemm_finish_threads + threadIdx.x, row = eight / (p.n / 8), column = eight % (p.n / 8) * 8;
  if (row >= p.m) return;
  const float4* from = (const float4*)p.parts + eight * 2;
  f32 sums[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) sums[e] = 0.0f;
#pragma unroll 4
  for (int s = 0; s < p.splits; ++s) {
    const float4 first = from[s * p.m * (p.n / 4)], second = from[s * p.m * (p.n / 4) + 1];
    sums[0] += first.x, sums[1] += first.y, sums[2] += first.z, sums[3] += first.w;
    sums[4] += second.x, sums[5] += second.y, sums[6] += second.z, sums[7] += second.w;
  }
  finish(row, column, sums);
}
