#include "kernels/matmul/matmul_map_cuda.h"

#include <iterator>

#include "base/error.h"
#include "kernels/matmul/matmul_map_cuda_args.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_MATMUL_MAP);

// Of A a tile in shared memory is [rows][64 of K]; of B [columns][64 of K] where its neighbours are along K, else [columns / 64][64 of K][64 columns].
constexpr std::string_view text = R"(
// Eight into shared memory, or zeros: neighbours at any address, the first `count` of them.
template <class H>
__device__ __forceinline__ void bring_some(H* to, const H* from, int count) {
  if (count >= 8 && (u64)from % 16 == 0) {
    bring_or_zero(shared_address(to), from, 16u);
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
// What stands behind a product: eight neighbours of an operand at once, or one by one.
template <bool Together, class M>
__device__ __forceinline__ void bring_neighbours(M* to, const M* at) {
  if (Together) {
    read<8>(to, at);
  } else {
#pragma unroll
    for (int v = 0; v < 8; ++v) to[v] = at[v];
  }
}
// The same of what is the same for all rows, which no store of this kernel writes: in any order with them.
template <bool Together, class M>
__device__ __forceinline__ void bring_constants(M* to, const M* at) {
  if (Together) {
    constexpr int pieces = sizeof(M) * 8 / 16;
#pragma unroll
    for (int k = 0; k < pieces; ++k) ((uint4*)to)[k] = __ldg((const uint4*)at + k);
  } else {
#pragma unroll
    for (int v = 0; v < 8; ++v) to[v] = at[v];
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
// Four lanes hold columns 2 q and 2 q + 1 (q = lane % 4) of four groups of eight; afterwards lane q holds all eight of group q.
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
// Eight neighbours of a row from the sums of four groups of columns: `half` is the upper or the lower eight rows of a warp's sixteen.
__device__ __forceinline__ void take_eight(f32* eight, const f32 (*groups)[4], int half) {
  f32 pairs[4][2];
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    pairs[g][0] = groups[g][half * 2];
    pairs[g][1] = groups[g][half * 2 + 1];
  }
  gather_eight(eight, pairs);
}
// What one of several blocks has of them.
__device__ __forceinline__ void put_part(const MatmulMapCudaParameters& p, int split, i64 row, i64 column, const f32* eight) {
  float4* to = (float4*)((f32*)p.parts + (split * p.m + row) * p.n + column);
  to[0] = make_float4(eight[0], eight[1], eight[2], eight[3]);
  to[1] = make_float4(eight[4], eight[5], eight[6], eight[7]);
}
// A tile of D: BM x BN. `finish(row, column, sums)` gets eight neighbours of a row. What it reads for them from far away may be brought before:
// `finish.bring(held, row, column)`, then `finish(row, column, sums, held, whether it stores them)`.
template <class H, int BM, int BN, int WM, int WN, bool AlongK, bool Aligned, class Finish>
__device__ __forceinline__ void product_through_map(const MatmulMapCudaParameters& p, Finish finish) {
  constexpr int depth = matmul_map_depth, stages = matmul_map_stages, threads = BM / WM * (BN / WN) * 32;
  constexpr int eights = depth / 8, row_step = threads / eights, rows = BM / row_step;                                   // of A, of one thread
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
  // What this thread brings of A: the same eight of K of several rows. One by one, neighbours of a row are far apart, those of a column near each other.
  const int my_row = Aligned ? threadIdx.x / eights : threadIdx.x % row_step, my_eight = Aligned ? threadIdx.x % eights : threadIdx.x / row_step;
  const H* from[rows];
  int guard[rows][2];
  bool live[rows];
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
  // And of B: of a row of the tile (a column of B where its neighbours are along K) an eight, some rows apart.
  const int b_row = threadIdx.x / b_eights, b_eight = threadIdx.x % b_eights;
  const H* const b_from = AlongK ? (const H*)p.b + k0 + b_eight * 8 + (n0 + b_row) * p.b_step : (const H*)p.b + (k0 + b_row) * p.b_step + n0 + b_eight * 8;
  int brought = 0;
  auto bring_turn = [&] {
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
          bring_or_zero(shared_address(to), there ? from[r] + offset : (const H*)p.b, there ? 16u : 0u);
        } else {
          // All eight are on their way before the first is needed: no branches, what is not there is read elsewhere and dropped.
          alignas(16) H eight[8];
          const int y = guard[r][0] + g0, x = guard[r][1] + g1;
          const bool row_live = live[r] & k_live;
#pragma unroll
          for (int e = 0; e < 8; ++e) {
            const bool there = row_live & (k2_at + e < p.k_extent[2]) & ((u32)(y + e * p.k_guard[0][2]) < (u32)p.inside[0]) & ((u32)(x + e * p.k_guard[1][2]) < (u32)p.inside[1]);
            eight[e] = *(there ? from[r] + offset + e * p.k_step[2] : (const H*)p.b);
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
          const H* const source = AlongK ? b_from + (i64)brought * depth + r * b_step * p.b_step : b_from + ((i64)brought * depth + r * b_step) * p.b_step;
          bring_or_zero(shared_address(to), there ? source : (const H*)p.b, there ? 16u : 0u);
        } else {
          // B has no rows for what only fills up an eight of A.
          const i64 group = k / p.k_inner, own = k - group * p.k_inner, real = group * p.k_extent[2] + own;
          const int count = !there || own >= p.k_extent[2] ? 0 : AlongK ? (int)(p.k_extent[2] - own) : 8;
          bring_some(to, (const H*)p.b + (count == 0 ? 0 : AlongK ? real + n * p.b_step : real * p.b_step + n), count);
        }
      }
      ++brought;
    }
    commit_brought();
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
  for (int s = 0; s + 1 < stages; ++s) bring_turn();
  for (int turn = 0; turn < turns; ++turn) {
    wait_brought<stages - 2>();
    const H* const at = a_tiles + turn % stages * BM * depth;
    const H* const bt = b_tiles + turn % stages * BN * depth;
#ifdef INGOT_WARPGROUPS
    // The turn before is done with its tiles, which the next one to be brought takes.
    wait_multiplied<tile_n_of * 4>(sums[0][0]);
    show_to_matrix_units();
    __syncthreads();
    begin_multiplying<tile_n_of * 4>(sums[0][0]);
    const u64 a = tile_of(shared_address(at + warp / 4 * 64 * depth), 0), b = tile_of(shared_address(bt), 64 * depth * 2);
#pragma unroll
    for (int k = 0; k < depth / 16; ++k) multiply_tiles<BN, AlongK>(sums[0][0], a + k * 2, b + k * (AlongK ? 2 : 128), H());
    multiplying();
    bring_turn();
#else
    __syncthreads();
    bring_turn();
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
#pragma unroll
      for (int j = 0; j < tile_n_of; j += 4) {
        f32 eight[8];
        take_eight(eight, sums[i] + j, half);
        const i64 column = n0 + warp_n + (j + lane % 4) * 8;
        if (row >= p.m || column >= p.n) continue;
        if (p.splits == 1) {
          finish(row, column, eight);
        } else {
          put_part(p, split, row, column, eight);
        }
      }
    }
  }
}
#ifdef INGOT_WARPGROUPS
// Tiles of D by groups of four warps, for which one more warp has boxes of A and B copied. Either each group multiplies 64 rows of one tile, or InTurn groups
// take whole tiles in turn: while one multiplies the others do what stands behind their products. Pixels: A's rows are positions in an image.
template <class H, int BM, int BN, int Stages, int InTurn, bool AlongK, bool Pixels, bool Constant, class Finish>
__device__ __forceinline__ void product_by_tiles(const MatmulMapCudaParameters& p, Finish finish) {
  constexpr int depth = matmul_map_depth, groups = InTurn > 0 ? InTurn : BM / 64, blocks_of_rows = InTurn > 0 ? BM / 64 : 1;
  constexpr int a_bytes = BM * depth * 2, b_bytes = BN * depth * 2, bytes = a_bytes + b_bytes, together = 16;
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  const u32 tiles = shared_address(tiles_of_block), full = tiles + Stages * bytes, empty = full + Stages * 8, order = empty + Stages * 8;
  const int tiles_n = (int)((p.n + BN - 1) / BN), tiles_m = (int)((p.m + BM - 1) / BM), all = tiles_m * tiles_n, work = all * p.splits;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int m0, n0, split, turn0, turns;
  // Blocks that run at the same time share rows and columns.
  auto locate = [&](int piece) {
    split = piece / all;
    const int place = piece % all, first = place / (together * tiles_m) * together, in_band = place % (together * tiles_m);
    const int band = tiles_n - first < together ? tiles_n - first : together;
    m0 = in_band / band * BM;
    n0 = (first + in_band % band) * BN;
    turn0 = split * p.turns;
    const int left = p.taps * p.chunks - turn0;
    turns = left < p.turns ? left : p.turns;
  };
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < Stages; ++s) {
      make_barrier(full + s * 8, 1);
      make_barrier(empty + s * 8, InTurn > 0 ? 1 : groups);
    }
#pragma unroll
    for (int g = 0; g < InTurn; ++g) make_barrier(order + g * 8, 1);
    show_barriers();
  }
  __syncthreads();
  let_next_start();
  if (warp >= groups * 4) {
    // Where there are four of them they leave the multiplying groups their registers.
    if (InTurn > 2) keep_registers<32>();
    if (warp > groups * 4 || lane != 0) return;
    fetch_map(p.a_tiles);
    fetch_map(p.b_tiles);
    int w = 0, h = 0, n = 0;
    auto bring_a = [&](int stage, int tap, int chunk) {
      const u32 to = tiles + stage * bytes;
      if (Pixels) {
        bring_pixels(to, p.a_tiles, full + stage * 8, chunk * depth, w, h, n, tap % p.k_extent[1] * p.tap_step[0], tap / p.k_extent[1] * p.tap_step[1]);
      } else {
        bring_box(to, p.a_tiles, full + stage * 8, chunk * depth, 0, m0);
      }
    };
    auto bring_b = [&](int stage, int tap, int chunk) {
      const u32 to = tiles + stage * bytes + a_bytes;
      if (AlongK) {
        bring_box(to, p.b_tiles, full + stage * 8, chunk * depth, tap, n0);
      } else {
#pragma unroll
        for (int j = 0; j < BN / 64; ++j) bring_box(to + j * 64 * depth * 2, p.b_tiles, full + stage * 8, n0 + j * 64, chunk * depth, tap);
      }
    };
    int stage = 0, ahead = 0;
    u32 parity = 1;
    for (int piece = blockIdx.x; piece < work; piece += gridDim.x) {
      locate(piece);
      if (Pixels) {
        const int i1 = m0 / p.m_extent[2];
        w = p.first[0] + m0 % p.m_extent[2] * p.step[0];
        h = p.first[1] + i1 % p.m_extent[1] * p.step[1];
        n = i1 / p.m_extent[1];
      }
      if (piece == blockIdx.x) {
        // What no step writes is on its way before those in front are done.
        int tap = turn0 / p.chunks, chunk = turn0 % p.chunks;
        for (; Constant && ahead < Stages && ahead < turns; ++ahead) {
          arrive_with(full + ahead * 8, bytes);
          bring_b(ahead, tap, chunk);
          if (++chunk == p.chunks) chunk = 0, ++tap;
        }
        wait_for_others();
      }
      int tap = turn0 / p.chunks, chunk = turn0 % p.chunks;
      for (int turn = 0; turn < turns; ++turn) {
        if (ahead > 0) {
          --ahead;
        } else {
          wait_barrier(empty + stage * 8, parity);
          arrive_with(full + stage * 8, bytes);
          bring_b(stage, tap, chunk);
        }
        bring_a(stage, tap, chunk);
        if (++chunk == p.chunks) chunk = 0, ++tap;
        if (++stage == Stages) stage = 0, parity ^= 1;
      }
    }
    return;
  }
  if (InTurn > 2) keep_registers<160>();
  const int group = warp / 4;
  wait_for_others();
  int stage = 0;
  u32 parity = 0;
  // Stages follow one another through all pieces, also through those of the other group.
  auto pass = [&](int count) {
    stage += count;
    parity ^= (u32)(stage / Stages) & 1u;
    stage %= Stages;
  };
  for (int piece = blockIdx.x, number = 0; piece < work; piece += gridDim.x, ++number) {
    locate(piece);
    if (InTurn > 0 && number % groups != group) {
      pass(turns);
      continue;
    }
    // A barrier tells one phase from the next, not from the one after: nobody waits for what is more than one away.
    if (InTurn > 0 && number > 0) wait_barrier(order + group * 8, (u32)(number / groups - (group == 0 ? 1 : 0)) & 1u);
    f32 sums[blocks_of_rows][BN / 8][4];
#pragma unroll
    for (int i = 0; i < blocks_of_rows; ++i) {
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.0f;
      }
    }
    begin_multiplying<blocks_of_rows * BN / 2>(sums[0][0]);
    int before = 0;
    for (int turn = 0; turn < turns; ++turn) {
      wait_barrier(full + stage * 8, parity);
      go_on_multiplying();
      const u32 at = tiles + stage * bytes;
      const u64 a = tile_of(at + (InTurn > 0 ? 0 : group * 64 * depth * 2), 0), b = tile_of(at + a_bytes, 64 * depth * 2);
#pragma unroll
      for (int k = 0; k < depth / 16; ++k) {
#pragma unroll
        for (int i = 0; i < blocks_of_rows; ++i) multiply_tiles<BN, AlongK>(sums[i][0], a + i * (64 * depth * 2 / 16) + k * 2, b + k * (AlongK ? 2 : 128), H());
      }
      multiplying();
      if (InTurn > 0 && turn + 1 == turns && threadIdx.x % 128 == 0) arrive(order + (group + 1) % groups * 8);
      // The turn before is done with its tiles.
      leave_multiplying<1>();
      if (turn > 0 && threadIdx.x % 128 == 0) arrive(empty + before * 8);
      before = stage;
      pass(1);
    }
    wait_multiplied<blocks_of_rows * BN / 2>(sums[0][0]);
    if (InTurn > 0 && threadIdx.x % 128 == 0) arrive(empty + before * 8);
#pragma unroll
    for (int i = 0; i < blocks_of_rows; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const i64 row = m0 + (InTurn > 0 ? i * 64 + warp % 4 * 16 : warp * 16) + lane / 4 + half * 8, near_row = row < p.m ? row : p.m - 1;
        // No branches: what is outside is done again for what is inside, and not stored.
        const bool whole = InTurn > 0 || p.splits == 1;
        typename Finish::Held held[2];
        auto near_column = [&](int j) {
          const i64 column = n0 + (j + lane % 4) * 8;
          return column < p.n ? column : p.n - 8;
        };
        auto bring = [&](int j) {
          if (whole) finish.bring(held[j / 4 % 2], near_row, near_column(j));
        };
        bring(0);
#pragma unroll
        for (int j = 0; j < BN / 8; j += 4) {
          if (j + 4 < BN / 8) bring(j + 4);
          f32 eight[8];
          take_eight(eight, sums[i] + j, half);
          const i64 column = n0 + (j + lane % 4) * 8;
          const bool inside = row < p.m && column < p.n;
          if (whole) {
            finish(near_row, near_column(j), eight, held[j / 4 % 2], inside);
          } else if (inside) {
            put_part(p, split, row, column, eight);
          }
        }
      }
    }
    if (InTurn == 0) break;
  }
}
#else
// Never started where these instructions are missing.
template <class H, int BM, int BN, int Stages, int InTurn, bool AlongK, bool Pixels, bool Constant, class Finish>
__device__ void product_by_tiles(const MatmulMapCudaParameters&, Finish) {}
#endif
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
template <class H>
__device__ __forceinline__ f32 sum_of_eight(f32 sum, const uint4& x, const uint4& y) {
  const H *a = (const H*)&x, *b = (const H*)&y;
#pragma unroll
  for (int e = 0; e < 8; ++e) sum = fmaf(value(a[e]), value(b[e]), sum);
  return sum;
}
template <bool Aligned, class H>
__device__ __forceinline__ uint4 eight_of(const H* from, bool there) {
  uint4 out = make_uint4(0, 0, 0, 0);
  if (Aligned) {
    if (there) out = streamed(from);
  } else if (there) {
#pragma unroll
    for (int e = 0; e < 8; ++e) ((H*)&out)[e] = from[e];
  }
  return out;
}
// One row by columns that lie along K: nothing but reading B counts. A block takes eight columns at a time, its threads pieces of K; the next pieces are on
// their way while these are multiplied, also those of the next columns.
template <class H, bool Aligned, bool Constant, class Finish>
__device__ __forceinline__ void row_through_columns(const MatmulMapCudaParameters& p, Finish finish) {
  constexpr int threads = matmul_map_row_threads, warps = threads / 32;
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  f32* const shared = (f32*)tiles_of_block;  // [2][warps][8]
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 groups = p.n / 8;
  const int pieces = (int)((p.k + threads * 8 - 1) / (threads * 8));
  const H* const a = (const H*)p.a + p.base;
  i64 group = blockIdx.x, at = threadIdx.x * 8;  // of what is brought next
  int piece = 0;
  uint4 next[8], x = make_uint4(0, 0, 0, 0);
  auto bring_columns = [&] {
    const bool there = group < groups && at < p.k;
    const H* const from = (const H*)p.b + group * 8 * p.b_step + at;
#pragma unroll
    for (int c = 0; c < 8; ++c) next[c] = eight_of<Aligned>(from + (there ? c * p.b_step : 0), there);
  };
  auto bring_row = [&] {
    x = make_uint4(0, 0, 0, 0);
    if (at < p.k) {
      if (Aligned) {
        x = *(const uint4*)(a + at);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) ((H*)&x)[e] = a[at + e];
      }
    }
    at += threads * 8;
    if (++piece == pieces) {
      piece = 0;
      at = threadIdx.x * 8;
      group += gridDim.x;
    }
  };
  if (!Constant) wait_for_others();
  bring_columns();
  if (Constant) wait_for_others();
  bring_row();
  int side = 0;
  for (i64 mine = blockIdx.x; mine < groups; mine += gridDim.x) {
    typename Finish::Held held;
    if (threadIdx.x == 0) finish.bring(held, 0, mine * 8);
    f32 sums[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) sums[c] = 0.0f;
    for (int k = 0; k < pieces; ++k) {
      uint4 now[8], row = x;
#pragma unroll
      for (int c = 0; c < 8; ++c) now[c] = next[c];
      bring_columns();
      bring_row();
#pragma unroll
      for (int c = 0; c < 8; ++c) sums[c] = sum_of_eight<H>(sums[c], row, now[c]);
    }
    f32* const all = shared + side * warps * 8;
    const f32 sum = sums_of_warp<8>(sums);
    if (lane % 4 == 0) all[warp * 8 + lane / 4] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll
      for (int c = 0; c < 8; ++c) sums[c] = 0.0f;
#pragma unroll
      for (int w = 0; w < warps; ++w) {
#pragma unroll
        for (int c = 0; c < 8; ++c) sums[c] += all[w * 8 + c];
      }
      finish(0, mine * 8, sums, held, true);
    }
    side ^= 1;
  }
}
// Sums of several blocks, always in the same order.
template <class Finish>
__device__ __forceinline__ void finish_product(const MatmulMapCudaParameters& p, Finish finish) {
  after_others();
  const i64 eight = (i64)blockIdx.x * matmul_map_finish_threads + threadIdx.x, row = eight / (p.n / 8), column = eight % (p.n / 8) * 8;
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
)";

}  // namespace

std::string_view matmul_map_cuda_text() {
  static const std::string all = std::string(parameters_text) +
                                 fmt::format("\nconstexpr int matmul_map_depth = {}, matmul_map_stages = {}, matmul_map_finish_threads = {}, matmul_map_row_threads = {};\n",
                                             matmul_map_depth, matmul_map_stages, matmul_map_finish_threads, matmul_map_row_threads) +
                                 std::string(text);
  return all;
}

std::vector<MatmulMapCudaKernel> matmul_map_cuda_kernels(ir::DType type, bool b_along_k, bool b_constant, bool large, bool pixels, int only) {
  std::vector<MatmulMapCudaKernel> out;
  for (size_t k = 0; large && k < std::size(matmul_large_tiles); ++k) {
    const MatmulLargeTile& t = matmul_large_tiles[k];
    if (only == MatmulMapCudaArgs::by_sizes ? t.measured : k != static_cast<size_t>(only)) continue;
    out.push_back({fmt::format("t{}", k), fmt::format("{}, {}", t.threads(), t.blocks),
                   fmt::format("product_by_tiles<{}, {}, {}, {}, {}, {}, {}, {}>", cuda_type(type), t.rows, t.columns, t.stages, t.in_turn, b_along_k, pixels, b_constant), true});
  }
  // Tiles of a warp, where warps multiply by themselves; blocks on a multiprocessor of Hopper.
  struct {
    std::string_view warp;
    int blocks;
  } constexpr tiles[] = {{"64, 32", 2}, {"32, 32", 4}};
  for (bool aligned : {true, false}) {
    const std::string any = aligned ? "" : "any_";
    for (size_t k = aligned ? 0 : std::size(matmul_map_tiles) - 1; k < std::size(matmul_map_tiles); ++k) {
      const MatmulMapTile& t = matmul_map_tiles[k];
      out.push_back({any + std::to_string(k), fmt::format("{}, INGOT_BLOCKS({})", t.threads, tiles[k].blocks),
                     fmt::format("product_through_map<{}, {}, {}, {}, {}, {}>", cuda_type(type), t.rows, t.columns, tiles[k].warp, b_along_k, aligned), aligned});
    }
    // Only A at any address: its windows seldom begin at aligned ones.
    if (aligned) {
      constexpr size_t k = std::size(matmul_map_tiles) - 1;
      const MatmulMapTile& t = matmul_map_tiles[k];
      out.push_back({fmt::format("one_{}", k), fmt::format("{}, INGOT_BLOCKS({})", t.threads, tiles[k].blocks),
                     fmt::format("product_through_map<{}, {}, {}, {}, {}, false>", cuda_type(type), t.rows, t.columns, tiles[k].warp, b_along_k), true});
    }
    out.push_back({any + "finish", std::to_string(matmul_map_finish_threads), "finish_product", aligned});
    if (b_along_k) out.push_back({any + "row", std::to_string(matmul_map_row_threads), fmt::format("row_through_columns<{}, {}, {}>", cuda_type(type), aligned, b_constant), aligned});
  }
  return out;
}

}  // namespace ingot::kernels
