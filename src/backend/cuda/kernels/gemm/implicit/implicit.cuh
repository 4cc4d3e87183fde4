// Computes a tile of D, BM x BN. `finish(row, column, sums)` gets eight adjacent sums of a row.
// Volume: the map has up to four indices of rows and of K, and three guards. Otherwise it has up to three indices and two guards, and the outermost extent is 1.
template <class H, class B, int BM, int BN, int WM, int WN, bool AlongK, bool Aligned, bool Volume, class Finish>
__device__ __forceinline__ void gemm_through_map(const ImplicitParameters& p, Finish finish) {
  constexpr int halves = Finish::halves, stages = gemm_stages;
  using Tiles = CopiedTiles<H, BM, BN, WM, WN, stages, halves, AlongK>;
  constexpr int each = Tiles::each, vectors = Tiles::vectors, depth = Tiles::depth, columns = Tiles::columns, row_step = Tiles::row_step, rows = Tiles::rows;
  // On Hopper floats come here only if the copying unit cannot copy their tiles.
  static_assert(halves == 1 || (AlongK && Tiles::by_groups), "gated columns");
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  const int tiles_n = (int)((p.size.n + columns - 1) / columns), tiles_m = (int)((p.size.m + BM - 1) / BM);
  const int tile_n = blockIdx.x % tiles_n, tile_m = blockIdx.x / tiles_n % tiles_m, split = blockIdx.x / tiles_n / tiles_m;
  const i64 m0 = (i64)tile_m * BM, n0 = (i64)tile_n * columns, k0 = (i64)split * p.shares.turns * depth;
  i64 k_end = k0 + (i64)p.shares.turns * depth;
  if (k_end > p.size.k) k_end = p.size.k;
  const int turns = (int)((k_end - k0 + depth - 1) / depth);
  after_others();
  // This thread copies the same vector of K of several rows of A. If elements are copied one by one, adjacent threads take adjacent rows: elements of a row may be
  // far from each other then, those of a column are close.
  const int my_row = Aligned ? threadIdx.x / vectors : threadIdx.x % row_step, my_vector = Aligned ? threadIdx.x % vectors : threadIdx.x / row_step;
  constexpr int outermost = Volume ? 0 : 1, guards = Volume ? 3 : 2;
  const H* from[rows];
  int guard[rows][guards];
  bool live[rows];
  const H* const elsewhere = (const H*)(p.matrices.b / sizeof(H) * sizeof(H));  // B may be int8 at an odd address
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    i64 row = m0 + my_row + r * row_step;
    live[r] = row < p.size.m;
    u32 rest = live[r] ? (u32)row : 0u;
    from[r] = (const H*)p.matrices.a + p.matrices.base;
#pragma unroll
    for (int g = 0; g < guards; ++g) guard[r][g] = p.walk.origin[g];
#pragma unroll
    for (int i = 3; i >= outermost; --i) {
      const u32 at = i > outermost ? rest % (u32)p.walk.m_extent[i] : rest;
      rest = i > outermost ? rest / (u32)p.walk.m_extent[i] : 0u;
      from[r] += (i64)at * p.walk.m_step[i];
#pragma unroll
      for (int g = 0; g < guards; ++g) guard[r][g] += (int)at * p.walk.m_guard[g][i];
    }
  }
  int k_at[4];
  {
    u32 k = (u32)(k0 + my_vector * each), rest = k / (u32)p.walk.k_inner;
    k_at[3] = (int)(k % (u32)p.walk.k_inner);
#pragma unroll
    for (int i = 2; i > outermost; --i) {
      k_at[i] = (int)(rest % (u32)p.walk.k_extent[i]);
      rest /= (u32)p.walk.k_extent[i];
    }
    k_at[outermost] = (int)rest;
  }
  // Columns of a tile that are not at equal distances: in two halves, or in several matrices.
  constexpr bool columns_apart = halves > 1 || Finish::parts_of_b > 1;
  static_assert(AlongK || !columns_apart, "columns of B");
  auto column_of_b = [&](i64 n) {
    if constexpr (AlongK) return finish.template column_of<B>(p.matrices, n);
    else return (const B*)p.matrices.b;
  };
  const int b_row = threadIdx.x / Tiles::b_vectors, b_vector = threadIdx.x % Tiles::b_vectors;
  const B* const b_from = AlongK ? (const B*)p.matrices.b + k0 + b_vector * each + (n0 + b_row) * p.matrices.b_step : (const B*)p.matrices.b + (k0 + b_row) * p.matrices.b_step + n0 + b_vector * each;
  typename Tiles::Sums sums;
  // Copies element by element are long.
  Tiles::template multiply_all<!Aligned>(sums, tiles_of_block, turns, [&](H* to_a, H* to_b, int turn) {
    i64 offset = Aligned ? k_at[3] : k_at[3] * p.walk.k_step[3];
    int of_k[guards];
#pragma unroll
    for (int g = 0; g < guards; ++g) of_k[g] = Aligned ? 0 : k_at[3] * p.walk.k_guard[g][3];
#pragma unroll
    for (int i = outermost; i < 3; ++i) {
      offset += (i64)k_at[i] * p.walk.k_step[i];
#pragma unroll
      for (int g = 0; g < guards; ++g) of_k[g] += k_at[i] * p.walk.k_guard[g][i];
    }
    const bool k_live = k_at[outermost] < p.walk.k_extent[outermost];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      H* const to = to_a + vector_offset<H>(my_row + r * row_step, my_vector);
      if (Aligned) {
        bool there = live[r] && k_live;
#pragma unroll
        for (int g = 0; g < guards; ++g) there = there && (u32)(guard[r][g] + of_k[g]) < (u32)p.walk.inside[g];
        copy_async_or_zero(shared_address(to), there ? from[r] + offset : (const H*)p.matrices.b, there ? 16u : 0u);
      } else {
        // All loads are issued before the first value is needed. So there are no branches: an element outside is loaded from another address and replaced by 0.
        alignas(16) H vector[each];
        const bool row_live = live[r] & k_live;
#pragma unroll
        for (int e = 0; e < each; ++e) {
          bool there = row_live & (k_at[3] + e < p.walk.k_extent[3]);
#pragma unroll
          for (int g = 0; g < guards; ++g) there = there & ((u32)(guard[r][g] + of_k[g] + e * p.walk.k_guard[g][3]) < (u32)p.walk.inside[g]);
          vector[e] = *(there ? from[r] + offset + e * p.walk.k_step[3] : elsewhere);
          if (!there) vector[e] = H{};
        }
        write<each>(to, vector);
      }
    }
    k_at[3] += depth;
    while (k_at[3] >= p.walk.k_inner) {
      k_at[3] -= p.walk.k_inner;
      bool on = true;  // the next index goes on by one
#pragma unroll
      for (int i = 2; i > outermost; --i) {
        if (on) on = ++k_at[i] == p.walk.k_extent[i];
        if (on) k_at[i] = 0;
      }
      if (on) ++k_at[outermost];
    }
#pragma unroll
    for (int r = 0; r < Tiles::b_rows; ++r) {
      const int row = b_row + r * Tiles::b_step;
      const i64 k = k0 + (i64)turn * depth + (AlongK ? b_vector * each : row), of_half = halves == 1 ? 0 : row / columns * p.size.n;
      const i64 n = n0 + (!AlongK ? b_vector * each : halves == 1 ? row : row % columns);
      const bool there = k < p.size.k && n < p.size.n;
      H* const to = to_b + Tiles::b_vector_offset(row, b_vector);
      if (Aligned) {
        const B* const source = columns_apart ? column_of_b(n + of_half) + k : AlongK ? b_from + (i64)turn * depth + r * Tiles::b_step * p.matrices.b_step : b_from + ((i64)turn * depth + r * Tiles::b_step) * p.matrices.b_step;
        if constexpr (sizeof(B) == 1) {
          load_int8(to, there ? source : (const B*)p.matrices.b, there ? 8 : 0);
        } else {
          copy_async_or_zero(shared_address(to), there ? source : (const B*)p.matrices.b, there ? 16u : 0u);
        }
      } else {
        // The padding of an incomplete vector of A has no rows in B.
        const i64 group = k / p.walk.k_inner, own = k - group * p.walk.k_inner, real = group * p.walk.k_extent[3] + own;
        const int count = !there || own >= p.walk.k_extent[3] ? 0 : AlongK ? (int)(p.walk.k_extent[3] - own) : each;
        const B* const source = count == 0 ? (const B*)p.matrices.b : AlongK ? column_of_b(n + of_half) + real : (const B*)p.matrices.b + real * p.matrices.b_step + n;
        if constexpr (sizeof(B) == 1) {
          load_int8(to, source, count);
        } else {
          copy_some_async(to, source, count);
        }
      }
    }
  });
  const i64 row = m0 + Tiles::first_row(), column = n0 + Tiles::first_column();
  if (p.shares.splits == 1) return finish_rows(finish, sums, row, p.size.m, column, p.size.n);
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < Tiles::sixteens; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < Tiles::eights; ++j) put_part(p.size, p.shares, split, row + i * 16 + lane / 4 + half * 8, column + j * 8 + lane % 4 * 2, sums[i][j] + half * 2);
    }
  }
}
