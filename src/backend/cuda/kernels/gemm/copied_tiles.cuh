// GEMMs whose threads copy tiles themselves: a ring of `Stages` tiles of A and of B in shared memory. WM, WN: the part of a tile that a warp multiplies, if it does so alone.
// Halves: 2 if the epilogue is gated. B's tile is then `columns` columns of B's first half, then those of its second.
template <class H, int BM, int BN, int WM, int WN, int Stages, int Halves, bool AlongK>
struct CopiedTiles {
  static constexpr int each = 16 / (int)sizeof(H), vectors = gemm_row_bytes / 16, depth = vectors * each, threads = BM / WM * (BN / WN) * 32, columns = BN / Halves;
  // What a thread copies: of A one vector of `rows` rows, `row_step` rows apart, and of B one vector of `b_rows` rows. A row of B's tile is a column of B if B is contiguous along K.
  static constexpr int row_step = threads / vectors, rows = BM / row_step, b_vectors = AlongK ? vectors : BN / each, b_step = threads / b_vectors, b_rows = (AlongK ? BN : depth) / b_step;
  static_assert(rows * row_step == BM && b_rows * b_step == (AlongK ? BN : depth), "threads");
  static __device__ __forceinline__ int b_vector_offset(int row, int vector) { return AlongK ? vector_offset<H>(row, vector) : vector / vectors * depth * depth + vector_offset<H>(row, vector % vectors); }

  // On Hopper a group of four warps multiplies 64 rows of halves by all columns. Otherwise each warp has rows and columns of its own, of both halves if gated.
  static constexpr bool by_groups = has_groups && sizeof(H) == 2 && BM >= 64;
  static constexpr int sixteens = by_groups ? 1 : WM / 16, eights = (by_groups ? BN : WN) / 8, own_columns = eights * 8 / Halves;
  typedef f32 Sums[sixteens][eights][4];
  // Where a warp's sums begin in the tile.
  static __device__ __forceinline__ int first_row() { return by_groups ? threadIdx.x / 32 * 16 : threadIdx.x / 32 / (BN / WN) * WM; }
  static __device__ __forceinline__ int first_column() { return by_groups ? 0 : threadIdx.x / 32 % (BN / WN) * own_columns; }

  // Multiplies `turns` tiles. copy(a tile of A, a tile of B, turn) does this thread's part of a turn. Long: the code of copy is not repeated for each of the first turns.
  template <bool Long, class Copy>
  static __device__ __forceinline__ void multiply_all(Sums& sums, uint4* shared, int turns, Copy copy) {
    H *const a_tiles = (H*)shared, *const b_tiles = a_tiles + Stages * BM * depth;
    const int lane = threadIdx.x % 32, warp_m = first_row(), warp_n = first_column();
    int copied = 0;
    auto copy_turn = [&] {
      if (copied < turns) {
        copy(a_tiles + copied % Stages * BM * depth, b_tiles + copied % Stages * BN * depth, copied);
        ++copied;
      }
      commit_copies();
    };
#pragma unroll
    for (int i = 0; i < sixteens; ++i) {
#pragma unroll
      for (int j = 0; j < eights; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.0f;
      }
    }
#pragma unroll (Long ? 1 : Stages)
    for (int s = 0; s + 1 < Stages; ++s) copy_turn();
    for (int turn = 0; turn < turns; ++turn) {
      wait_copies<Stages - 2>();
      const H *const of_a = a_tiles + turn % Stages * BM * depth, *const of_b = b_tiles + turn % Stages * BN * depth;
      // Each instruction multiplies 32 bytes of every row.
      if constexpr (by_groups) {
        // Waits until the previous turn has read its tiles: the next copy overwrites them.
        wait_multiplied<eights * 4>(sums[0][0]);
        show_to_matrix_units();
        __syncthreads();
        begin_multiplying<eights * 4>(sums[0][0]);
        const u64 a = tile_of(shared_address(of_a + threadIdx.x / 128 * 64 * depth), 0), b = tile_of(shared_address(of_b), 64 * gemm_row_bytes);
#pragma unroll
        for (int k = 0; k < vectors / 2; ++k) multiply_tiles<BN, AlongK>(sums[0][0], a + k * 2, b + k * (AlongK ? 2 : 128), H(), true);
        multiplying();
        copy_turn();
      } else {
        __syncthreads();
        copy_turn();
#pragma unroll
        for (int k = 0; k < vectors / 2; ++k) {
          u32 a[WM / 16][4], b[WN / 16][4];
#pragma unroll
          for (int i = 0; i < WM / 16; ++i) {
            four_matrices(a[i], shared_address(of_a + vector_offset<H>(warp_m + i * 16 + lane % 16, k * 2 + lane / 16)));
            round_fragment(a[i], H());
          }
#pragma unroll
          for (int j = 0; j < WN / 16; ++j) {
            const int first = j * 16 / own_columns * columns + warp_n + j * 16 % own_columns;
            if constexpr (AlongK) {
              four_matrices(b[j], shared_address(of_b + vector_offset<H>(first + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2)));
            } else if constexpr (sizeof(H) == 2) {
              four_matrices_transposed(b[j], shared_address(of_b + b_vector_offset(k * 16 + lane % 16, first / 8 + lane / 16)));
            } else {
              // No instruction transposes matrices of floats.
#pragma unroll
              for (int e = 0; e < 4; ++e) {
                const int column = first + e / 2 * 8 + lane / 4, row = k * 8 + e % 2 * 4 + lane % 4;
                b[j][e] = ((const u32*)of_b)[b_vector_offset(row, column / each) + column % each];
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
    if constexpr (by_groups) wait_multiplied<eights * 4>(sums[0][0]);
  }
};
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
