// Computes a tile of D, BM x BN. `finish(row, column, sums)` gets eight adjacent sums of a row.
// Volume: the map has up to four indices of rows and of K, and three guards. Otherwise it has up to three indices and two guards, and the outermost extent is 1.
template <class H, class B, int BM, int BN, int WM, int WN, bool AlongK, bool Aligned, bool Volume, class Finish>
__device__ __forceinline__ void gemm_through_map(const GemmParameters& p, Finish finish) {
  constexpr int each = 16 / (int)sizeof(H), pieces = gemm_row_bytes / 16, depth = pieces * each, stages = gemm_stages, threads = BM / WM * (BN / WN) * 32;
  constexpr int row_step = threads / pieces, rows = BM / row_step;                                                              // of A, of one thread
  constexpr int b_pieces = AlongK ? pieces : BN / each, b_step = threads / b_pieces, b_rows = (AlongK ? BN : depth) / b_step;  // of B
  // On Hopper, groups of four warps multiply halves. Otherwise each warp multiplies by itself; Hopper's floats come here only if the copying unit cannot copy their tiles.
  constexpr bool by_groups = has_groups && sizeof(H) == 2;
  // Columns of the result. Gated: B's tile is these columns of its first half, then of its second.
  constexpr int halves = Finish::halves, columns = BN / halves;
  static_assert(halves == 1 || (AlongK && by_groups), "gated columns");
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  H* const a_tiles = (H*)tiles_of_block;
  H* const b_tiles = a_tiles + stages * BM * depth;
  const int tiles_n = (int)((p.n + columns - 1) / columns), tiles_m = (int)((p.m + BM - 1) / BM);
  const int tile_n = blockIdx.x % tiles_n, tile_m = blockIdx.x / tiles_n % tiles_m, split = blockIdx.x / tiles_n / tiles_m;
  const i64 m0 = (i64)tile_m * BM, n0 = (i64)tile_n * columns, k0 = (i64)split * p.turns * depth;
  i64 k_end = k0 + (i64)p.turns * depth;
  if (k_end > p.k) k_end = p.k;
  const int turns = (int)((k_end - k0 + depth - 1) / depth);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  after_others();
  // This thread copies the same piece of K of several rows of A. If elements are copied one by one, adjacent threads take adjacent rows: elements of a row may be
  // far from each other then, those of a column are close.
  const int my_row = Aligned ? threadIdx.x / pieces : threadIdx.x % row_step, my_piece = Aligned ? threadIdx.x % pieces : threadIdx.x / row_step;
  constexpr int outermost = Volume ? 0 : 1, guards = Volume ? 3 : 2;
  const H* from[rows];
  int guard[rows][guards];
  bool live[rows];
  const H* const elsewhere = (const H*)(p.b / sizeof(H) * sizeof(H));  // B may be int8 at an odd address
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    i64 row = m0 + my_row + r * row_step;
    live[r] = row < p.m;
    u32 rest = live[r] ? (u32)row : 0u;
    from[r] = (const H*)p.a + p.base;
#pragma unroll
    for (int g = 0; g < guards; ++g) guard[r][g] = p.origin[g];
#pragma unroll
    for (int i = 3; i >= outermost; --i) {
      const u32 at = i > outermost ? rest % (u32)p.m_extent[i] : rest;
      rest = i > outermost ? rest / (u32)p.m_extent[i] : 0u;
      from[r] += (i64)at * p.m_step[i];
#pragma unroll
      for (int g = 0; g < guards; ++g) guard[r][g] += (int)at * p.m_guard[g][i];
    }
  }
  int k_at[4];
  {
    u32 k = (u32)(k0 + my_piece * each), rest = k / (u32)p.k_inner;
    k_at[3] = (int)(k % (u32)p.k_inner);
#pragma unroll
    for (int i = 2; i > outermost; --i) {
      k_at[i] = (int)(rest % (u32)p.k_extent[i]);
      rest /= (u32)p.k_extent[i];
    }
    k_at[outermost] = (int)rest;
  }
  // Of B, this thread copies one piece of several rows of the tile. A row of the tile is a column of B if B is contiguous along K.
  const int b_row = threadIdx.x / b_pieces, b_piece = threadIdx.x % b_pieces;
  const B* const b_from = AlongK ? (const B*)p.b + k0 + b_piece * each + (n0 + b_row) * p.b_step : (const B*)p.b + (k0 + b_row) * p.b_step + n0 + b_piece * each;
  int brought = 0;
  auto copy_turn = [&] {
    if (brought < turns) {
      H* const at = a_tiles + brought % stages * BM * depth;
      H* const bt = b_tiles + brought % stages * BN * depth;
      i64 offset = Aligned ? k_at[3] : k_at[3] * p.k_step[3];
      int of_k[guards];
#pragma unroll
      for (int g = 0; g < guards; ++g) of_k[g] = Aligned ? 0 : k_at[3] * p.k_guard[g][3];
#pragma unroll
      for (int i = outermost; i < 3; ++i) {
        offset += (i64)k_at[i] * p.k_step[i];
#pragma unroll
        for (int g = 0; g < guards; ++g) of_k[g] += k_at[i] * p.k_guard[g][i];
      }
      const bool k_live = k_at[outermost] < p.k_extent[outermost];
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        H* const to = at + piece_of<H>(my_row + r * row_step, my_piece);
        if (Aligned) {
          bool there = live[r] && k_live;
#pragma unroll
          for (int g = 0; g < guards; ++g) there = there && (u32)(guard[r][g] + of_k[g]) < (u32)p.inside[g];
          copy_async_or_zero(shared_address(to), there ? from[r] + offset : (const H*)p.b, there ? 16u : 0u);
        } else {
          // All loads are issued before the first value is needed. So there are no branches: an element outside is loaded from another address and replaced by 0.
          alignas(16) H piece[each];
          const bool row_live = live[r] & k_live;
#pragma unroll
          for (int e = 0; e < each; ++e) {
            bool there = row_live & (k_at[3] + e < p.k_extent[3]);
#pragma unroll
            for (int g = 0; g < guards; ++g) there = there & ((u32)(guard[r][g] + of_k[g] + e * p.k_guard[g][3]) < (u32)p.inside[g]);
            piece[e] = *(there ? from[r] + offset + e * p.k_step[3] : elsewhere);
            if (!there) piece[e] = H{};
          }
          write<each>(to, piece);
        }
      }
      k_at[3] += depth;
      while (k_at[3] >= p.k_inner) {
        k_at[3] -= p.k_inner;
        bool on = true;  // the next index goes on by one
#pragma unroll
        for (int i = 2; i > outermost; --i) {
          if (on) on = ++k_at[i] == p.k_extent[i];
          if (on) k_at[i] = 0;
        }
        if (on) ++k_at[outermost];
      }
#pragma unroll
      for (int r = 0; r < b_rows; ++r) {
        const int row = b_row + r * b_step;
        const i64 k = k0 + (i64)brought * depth + (AlongK ? b_piece * each : row), of_half = halves == 1 ? 0 : row / columns * p.n;
        const i64 n = n0 + (!AlongK ? b_piece * each : halves == 1 ? row : row % columns);
        const bool there = k < p.k && n < p.n;
        H* const to = bt + (AlongK ? piece_of<H>(row, b_piece) : b_piece / pieces * depth * depth + piece_of<H>(row, b_piece % pieces));
        if (Aligned) {
          const B* const source = halves > 1 ? (const B*)p.b + k + (n + of_half) * p.b_step : AlongK ? b_from + (i64)brought * depth + r * b_step * p.b_step : b_from + ((i64)brought * depth + r * b_step) * p.b_step;
          if constexpr (sizeof(B) == 1) {
            bring_int8(to, there ? source : (const B*)p.b, there ? 8 : 0);
          } else {
            copy_async_or_zero(shared_address(to), there ? source : (const B*)p.b, there ? 16u : 0u);
          }
        } else {
          // The padding of an incomplete piece of A has no rows in B.
          const i64 group = k / p.k_inner, own = k - group * p.k_inner, real = group * p.k_extent[3] + own;
          const int count = !there || own >= p.k_extent[3] ? 0 : AlongK ? (int)(p.k_extent[3] - own) : each;
          const B* const source = (const B*)p.b + (count == 0 ? 0 : AlongK ? real + (n + of_half) * p.b_step : real * p.b_step + n);
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
  // A group of four warps multiplies 64 rows by all columns. Otherwise each warp has rows and columns of its own.
  constexpr int tile_m_of = by_groups ? 1 : WM / 16, tile_n_of = (by_groups ? BN : WN) / 8;
  const int warp_m = by_groups ? warp * 16 : warp / (BN / WN) * WM, warp_n = by_groups ? 0 : warp % (BN / WN) * WN;
  f32 sums[tile_m_of][tile_n_of][4];
#pragma unroll
  for (int i = 0; i < tile_m_of; ++i) {
#pragma unroll
    for (int j = 0; j < tile_n_of; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.0f;
    }
  }
  // Copies element by element are long: they are printed once here.
#pragma unroll (Aligned ? stages : 1)
  for (int s = 0; s + 1 < stages; ++s) copy_turn();
  for (int turn = 0; turn < turns; ++turn) {
    wait_copies<stages - 2>();
    const H* const at = a_tiles + turn % stages * BM * depth;
    const H* const bt = b_tiles + turn % stages * BN * depth;
    // Each instruction multiplies 32 bytes of every row.
    if constexpr (by_groups) {
      // Waits until the previous turn has read its tiles: the next copy overwrites them.
      wait_multiplied<tile_n_of * 4>(sums[0][0]);
      show_to_matrix_units();
      __syncthreads();
      begin_multiplying<tile_n_of * 4>(sums[0][0]);
      const u64 a = tile_of(shared_address(at + warp / 4 * 64 * depth), 0), b = tile_of(shared_address(bt), 64 * gemm_row_bytes);
#pragma unroll
      for (int k = 0; k < pieces / 2; ++k) multiply_tiles<BN, AlongK>(sums[0][0], a + k * 2, b + k * (AlongK ? 2 : 128), H(), true);
      multiplying();
      copy_turn();
    } else {
      __syncthreads();
      copy_turn();
#pragma unroll
      for (int k = 0; k < pieces / 2; ++k) {
        u32 a[WM / 16][4], b[WN / 16][4];
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) {
          four_matrices(a[i], shared_address(at + piece_of<H>(warp_m + i * 16 + lane % 16, k * 2 + lane / 16)));
          round_fragment(a[i], H());
        }
#pragma unroll
        for (int j = 0; j < WN / 16; ++j) {
          if constexpr (AlongK) {
            four_matrices(b[j], shared_address(bt + piece_of<H>(warp_n + j * 16 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2)));
          } else if constexpr (sizeof(H) == 2) {
            const int piece = (warp_n + j * 16) / 8 + lane / 16;
            four_matrices_turned(b[j], shared_address(bt + piece / 8 * 64 * depth + piece_of<H>(k * 16 + lane % 16, piece % 8)));
          } else {
            // No instruction transposes matrices of floats.
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const int column = warp_n + j * 16 + e / 2 * 8 + lane / 4, row = k * 8 + e % 2 * 4 + lane % 4;
              b[j][e] = ((const u32*)bt)[column / depth * depth * depth + piece_of<H>(row, column % depth / each) + column % each];
            }
          }
          round_fragment(b[j], H());
        }
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
          for (int j = 0; j < WN / 8; ++j) multiply(sums[i][j], a[i], b[j / 2] + j % 2 * 2, H());
        }
      }
    }
  }
  if constexpr (by_groups) wait_multiplied<tile_n_of * 4>(sums[0][0]);
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
      for (int j = 0; j < tile_n_of / halves; j += 4) {
        f32 eights[8 * halves];
#pragma unroll
        for (int h = 0; h < halves; ++h) {
          f32 pairs[4][2], eight[8];
#pragma unroll
          for (int g = 0; g < 4; ++g) {
            pairs[g][0] = sums[i][h * (columns / 8) + j + g][half * 2];
            pairs[g][1] = sums[i][h * (columns / 8) + j + g][half * 2 + 1];
          }
          gather_eight(eight, pairs);
#pragma unroll
          for (int e = 0; e < 8; ++e) eights[h * 8 + e] = eight[e];
        }
        const i64 column = n0 + warp_n + (j + lane % 4) * 8;
        if (row < p.m && column < p.n) finish(row, column, eights);
      }
    }
  }
}
