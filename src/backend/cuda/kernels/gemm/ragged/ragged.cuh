// Products of experts: rows of A, which lie in the order of their experts, times the matrix of their expert. A block has a tile of one expert's rows; which one it finds from the ends of the
// rows. There are blocks for the most tiles that so many rows can have; the last ones may have nothing to do.
struct RaggedPlace {
  int expert;      // `count` for the rows behind the last end, whose sums are 0
  int m0, m_end, tile_n;
};
// A tile of expert e comes before those of e + 1; of an expert, tiles of the same columns are neighbours, so that they read its matrix together.
template <int BM>
__device__ __forceinline__ RaggedPlace find_rows(const Experts& experts, int rows, int tiles_n) {
  const int lane = threadIdx.x % 32;
  auto end_of = [&](int e) {
    if (e >= experts.count) return (i64)rows;
    return experts.bytes == 4 ? (i64)((const int*)experts.ends)[e] : ((const i64*)experts.ends)[e];
  };
  int before = 0, last = 0;
  i64 next = end_of(lane);
  for (int first = 0; first <= experts.count; first += 32) {
    const int e = first + lane;
    const i64 end = next;
    next = end_of(e + 32);
    const int own_end = end < 0 ? 0 : end > rows ? rows : (int)end, neighbour = __shfl_up_sync(0xffffffffu, own_end, 1), begin = lane == 0 ? last : neighbour;
    const int own = own_end > begin && e <= experts.count ? (own_end - begin + BM - 1) / BM * tiles_n : 0;
    int sum = own;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const int left = __shfl_up_sync(0xffffffffu, sum, (u32)by);
      sum += lane >= by ? left : 0;
    }
    const u32 found = __ballot_sync(0xffffffffu, (int)blockIdx.x < before + sum);
    if (found != 0) {
      const u32 at = (u32)__ffs((int)found) - 1;
      const int in_expert = (int)blockIdx.x - before - __shfl_sync(0xffffffffu, sum - own, at), m0 = __shfl_sync(0xffffffffu, begin, at), m_end = __shfl_sync(0xffffffffu, own_end, at);
      const int tiles_m = (m_end - m0 + BM - 1) / BM;
      return {first + (int)at, m0 + in_expert % tiles_m * BM, m_end, in_expert / tiles_m};
    }
    before += __shfl_sync(0xffffffffu, sum, 31);
    last = __shfl_sync(0xffffffffu, own_end, 31);
  }
  return {0, 0, 0, 0};
}
// What a warp has of a tile: Sixteens times 16 rows from `row` on, and Eights times 8 columns, which begin at `column` in each half. `finish(row, column, sums)` gets eight adjacent sums of a
// row.
template <int Sixteens, int Eights, class Finish>
__device__ __forceinline__ void finish_rows(const Finish& finish, const f32 (&sums)[Sixteens][Eights][4], i64 row, i64 row_end, i64 column, i64 column_end) {
  constexpr int halves = Finish::halves, of_half = Eights / halves;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < Sixteens; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 own_row = row + i * 16 + lane / 4 + half * 8;
#pragma unroll
      for (int j = 0; j < of_half; j += 4) {
        f32 eights[8 * halves];
#pragma unroll
        for (int h = 0; h < halves; ++h) {
          f32 pairs[4][2], eight[8];
#pragma unroll
          for (int g = 0; g < 4; ++g) {
            pairs[g][0] = sums[i][h * of_half + j + g][half * 2];
            pairs[g][1] = sums[i][h * of_half + j + g][half * 2 + 1];
          }
          gather_eight(eight, pairs);
#pragma unroll
          for (int e = 0; e < 8; ++e) eights[h * 8 + e] = eight[e];
        }
        const i64 own_column = column + (j + lane % 4) * 8;
        if (own_row < row_end && own_column < column_end) finish(own_row, own_column, eights);
      }
    }
  }
}
// WM, WN: the part of a warp that multiplies alone.
template <class H, int BM, int BN, int WM, int WN, int Stages, bool AlongK, bool Aligned, class Finish>
__device__ __forceinline__ void ragged_gemm(const GemmParameters& p, Finish finish, const Experts& experts) {
  constexpr int each = 16 / (int)sizeof(H), pieces = gemm_row_bytes / 16, depth = pieces * each, threads = BM / WM * (BN / WN) * 32;
  constexpr int row_step = threads / pieces, rows = BM / row_step;                                                              // of A, of one thread
  constexpr int b_pieces = AlongK ? pieces : BN / each, b_step = threads / b_pieces, b_rows = (AlongK ? BN : depth) / b_step;  // of B
  constexpr bool by_groups = has_groups && sizeof(H) == 2 && BM >= 64;
  // Columns of the result. Gated: B's tile is these columns of its first half, then of its second.
  constexpr int halves = Finish::halves, columns = BN / halves;
  static_assert(halves == 1 || AlongK, "gated columns");
  static_assert(rows * row_step == BM && b_rows * b_step == (AlongK ? BN : depth), "threads");
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  H* const a_tiles = (H*)tiles_of_block;
  H* const b_tiles = a_tiles + Stages * BM * depth;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  after_others();
  const RaggedPlace at = find_rows<BM>(experts, (int)p.m, (int)((p.n + columns - 1) / columns));
  if (at.m0 >= at.m_end) return;
  const i64 n0 = (i64)at.tile_n * columns;
  const int turns = at.expert < experts.count ? (int)((p.k + depth - 1) / depth) : 0;
  // This thread copies the same piece of K of several rows of A, and of B one piece of several rows of the tile. A row of the tile is a column of B if B is contiguous along K.
  const int my_row = threadIdx.x / pieces, my_piece = threadIdx.x % pieces, b_row = threadIdx.x / b_pieces, b_piece = threadIdx.x % b_pieces;
  const H* const a_from = (const H*)p.a + p.base + (i64)(at.m0 + my_row) * p.m_step[3] + my_piece * each;
  const H* const b_from = (const H*)p.b + at.expert * experts.apart;
  int brought = 0;
  auto copy = [&](H* to, const H* from, i64 count) {
    if (Aligned) {
      copy_async_or_zero(shared_address(to), count > 0 ? from : (const H*)p.b, count > 0 ? 16u : 0u);
    } else {
      copy_some_async(to, count > 0 ? from : (const H*)p.b, count < 0 ? 0 : count < each ? (int)count : each);
    }
  };
  auto copy_turn = [&] {
    if (brought < turns) {
      H* const to_a = a_tiles + brought % Stages * BM * depth;
      H* const to_b = b_tiles + brought % Stages * BN * depth;
      const i64 k0 = (i64)brought * depth;
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const int row = my_row + r * row_step;
        copy(to_a + piece_of<H>(row, my_piece), a_from + (i64)(r * row_step) * p.m_step[3] + k0, at.m0 + row < at.m_end ? p.k - k0 - my_piece * each : 0);
      }
#pragma unroll
      for (int r = 0; r < b_rows; ++r) {
        const int row = b_row + r * b_step;
        if (AlongK) {
          const i64 k = k0 + b_piece * each, n = n0 + (halves == 1 ? row : row % columns), of_half = halves == 1 ? 0 : row / columns * p.n;
          copy(to_b + piece_of<H>(row, b_piece), b_from + k + (n + of_half) * p.b_step, n < p.n ? p.k - k : 0);
        } else {
          const i64 k = k0 + row, n = n0 + b_piece * each;
          copy(to_b + b_piece / pieces * depth * depth + piece_of<H>(row, b_piece % pieces), b_from + k * p.b_step + n, k < p.k ? p.n - n : 0);
        }
      }
      ++brought;
    }
    commit_copies();
  };
  // A group of four warps multiplies 64 rows by all columns. Otherwise each warp has rows and columns of its own, of both halves if gated.
  constexpr int tile_m_of = by_groups ? 1 : WM / 16, tile_n_of = (by_groups ? BN : WN) / 8, own_columns = (by_groups ? BN : WN) / halves;
  const int warp_m = by_groups ? warp * 16 : warp / (BN / WN) * WM, warp_n = by_groups ? 0 : warp % (BN / WN) * own_columns;
  f32 sums[tile_m_of][tile_n_of][4];
#pragma unroll
  for (int i = 0; i < tile_m_of; ++i) {
#pragma unroll
    for (int j = 0; j < tile_n_of; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.0f;
    }
  }
#pragma unroll (Aligned ? Stages : 1)
  for (int s = 0; s + 1 < Stages; ++s) copy_turn();
  for (int turn = 0; turn < turns; ++turn) {
    wait_copies<Stages - 2>();
    const H* const of_a = a_tiles + turn % Stages * BM * depth;
    const H* const of_b = b_tiles + turn % Stages * BN * depth;
    // Each instruction multiplies 32 bytes of every row.
    if constexpr (by_groups) {
      // Waits until the previous turn has read its tiles: the next copy overwrites them.
      wait_multiplied<tile_n_of * 4>(sums[0][0]);
      show_to_matrix_units();
      __syncthreads();
      begin_multiplying<tile_n_of * 4>(sums[0][0]);
      const u64 a = tile_of(shared_address(of_a + warp / 4 * 64 * depth), 0), b = tile_of(shared_address(of_b), 64 * gemm_row_bytes);
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
          four_matrices(a[i], shared_address(of_a + piece_of<H>(warp_m + i * 16 + lane % 16, k * 2 + lane / 16)));
          round_fragment(a[i], H());
        }
#pragma unroll
        for (int j = 0; j < WN / 16; ++j) {
          const int first = j * 16 / own_columns * columns + warp_n + j * 16 % own_columns;
          if constexpr (AlongK) {
            four_matrices(b[j], shared_address(of_b + piece_of<H>(first + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2)));
          } else if constexpr (sizeof(H) == 2) {
            const int piece = first / 8 + lane / 16;
            four_matrices_turned(b[j], shared_address(of_b + piece / 8 * 64 * depth + piece_of<H>(k * 16 + lane % 16, piece % 8)));
          } else {
            // No instruction transposes matrices of floats.
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const int column = first + e / 2 * 8 + lane / 4, row = k * 8 + e % 2 * 4 + lane % 4;
              b[j][e] = ((const u32*)of_b)[column / depth * depth * depth + piece_of<H>(row, column % depth / each) + column % each];
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
  finish_rows(finish, sums, at.m0 + warp_m, at.m_end, n0 + warp_n, p.n);
}
