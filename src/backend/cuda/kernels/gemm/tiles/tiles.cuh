#ifdef INGOT_WARPGROUPS
// Groups of four warps compute tiles of D; one more warp copies boxes of A and B for them. Either each group multiplies 64 rows of one tile, or PingPong groups
// alternate on whole tiles: while one multiplies, the others run their epilogues. Pixels: A's rows are positions in an image (2) or a volume (3); 0: rows of a matrix.
// The epilogue's operands of one element each are also copied as boxes, through a tile of results in shared memory: boxes of 64 rows x 128 bytes, row after row.
// Cluster: blocks that have tiles of the same columns below each other. Each copies its share of B to all of them.
// This tile takes the place of the next stage (one stage for each group, where one has no room for all), or is the group's own if groups alternate.
template <class H, int BM, int BN, int Stages, int PingPong, int Cluster, bool AlongK, int Pixels, bool Constant, int Parts, class Finish>
__device__ __forceinline__ void gemm_by_tiles(const TilesParametersOf<Parts>& p, Finish finish) {
  constexpr int depth = gemm_row_bytes / (int)sizeof(H), groups = PingPong > 0 ? PingPong : BM / 64, blocks_of_rows = PingPong > 0 ? BM / 64 : 1;
  // Columns of the result. Gated: B's tile is these columns of its first half, then of its second.
  constexpr int halves = Finish::halves, columns = BN / halves;
  static_assert(halves == 1 || AlongK, "gated columns");
  constexpr bool boxed = Finish::boxed_in || Finish::boxed_out, fetches = Finish::column_bytes > 0;
  // Columns are in boxes of 128 bytes. If they are not a multiple of a box, only a part of the last box belongs to the tile.
  constexpr bool floats = boxed && sizeof(H) == 4;
  constexpr int box = 64 * 128, wide = floats ? 32 : 64, boxes = (columns + wide - 1) / wide, part = columns % wide, row_of_boxes = boxes * box, own_bytes = blocks_of_rows * row_of_boxes;
  constexpr int together = 16;
  constexpr int a_bytes = BM * gemm_row_bytes, b_bytes = AlongK ? BN * gemm_row_bytes : boxes * box, copied = a_bytes + b_bytes;
  constexpr int bytes = gemm_stage_bytes(BM, BN);
  constexpr bool stage_per_group = PingPong == 0 && boxed && (floats || groups * row_of_boxes > bytes);  // each group's results take a stage of their own
  static_assert(AlongK || sizeof(H) == 2, "the instruction turns tiles of halves alone");
  static_assert(!stage_per_group || (row_of_boxes <= bytes && groups < Stages), "room for results");
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  const u32 tiles = shared_address(tiles_of_block), own_tiles = tiles + Stages * bytes, full = own_tiles + PingPong * own_bytes, empty = full + Stages * 8, order = empty + Stages * 8,
            filled = order + PingPong * 8;
  constexpr int high = Cluster * BM;  // rows of a cluster's tiles
  const int tiles_n = (int)((p.size.n + columns - 1) / columns), tiles_m = (int)((p.size.m + high - 1) / high), all = tiles_m * tiles_n, work_tiles = all * p.shares.splits;
  const int first_work = blockIdx.x / Cluster, in_cluster = blockIdx.x % Cluster, work_step = gridDim.x / Cluster;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int m0, n0, split, turn0, turns;
  // Blocks that run at the same time share rows and columns.
  auto locate = [&](int work) {
    split = work / all;
    const int place = work % all, first = place / (together * tiles_m) * together, in_band = place % (together * tiles_m);
    const int band = tiles_n - first < together ? tiles_n - first : together;
    m0 = in_band / band * high + in_cluster * BM;
    n0 = (first + in_band % band) * columns;
    turn0 = split * p.shares.turns;
    const int left = p.taps * p.chunks - turn0;
    turns = left < p.shares.turns ? left : p.shares.turns;
  };
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < Stages; ++s) {
      make_barrier(full + s * 8, 1);
      make_barrier(empty + s * 8, Cluster * (PingPong > 0 ? 1 : groups));
    }
#pragma unroll
    for (int g = 0; g < 2 * PingPong; ++g) make_barrier(order + g * 8, 1);
    show_barriers();
  }
  if (Cluster > 1) {
    meet_cluster();
  } else {
    __syncthreads();
  }
  // A stage is free when all blocks that its copies come from know it.
  auto leave = [&](u32 barrier) {
#pragma unroll
    for (int c = 0; c < Cluster; ++c) arrive_at(barrier, c == in_cluster || Cluster == 1 ? -1 : c);
  };
  auto copy_epilogue = [&](u32 to, u32 barrier, int row, int rows) {
    arrive_with(barrier, rows * row_of_boxes);
#pragma unroll
    for (int i = 0; i < rows; ++i) {
#pragma unroll
      for (int j = 0; j < boxes; ++j) copy_box_async(to + i * row_of_boxes + j * box, p.in_tiles, barrier, n0 + j * wide, 0, row + i * 64);
    }
  };
  if (warp == groups * 4) {
    if (lane != 0) return;
    fetch_map(p.a_tiles);
#pragma unroll
    for (int i = 0; i < Finish::parts_of_b; ++i) fetch_map(p.b_tiles[i]);
    if (Finish::boxed_in) fetch_map(p.in_tiles);
    if (Finish::boxed_out) fetch_map(p.out_tiles);
    int w = 0, h = 0, d = 0, n = 0;
    auto copy_a = [&](int stage, int tap, int chunk) {
      const u32 to = tiles + stage * bytes;
      if (Pixels) {
        const int of_h = tap / p.k_extent[2], right = tap % p.k_extent[2] * p.tap_step[0];
        if (Pixels == 3) {
          copy_pixels_async(to, p.a_tiles, full + stage * 8, chunk * depth, w, h, d, n, right, of_h % p.k_extent[1] * p.tap_step[1], of_h / p.k_extent[1] * p.tap_step[2]);
        } else {
          copy_pixels_async(to, p.a_tiles, full + stage * 8, chunk * depth, w, h, n, right, of_h * p.tap_step[1]);
        }
      } else {
        copy_box_async(to, p.a_tiles, full + stage * 8, chunk * depth, 0, m0);
      }
    };
    auto copy_b = [&](int stage, int tap, int chunk) {
      const u32 to = tiles + stage * bytes + a_bytes;
      if (AlongK) {
#pragma unroll
        for (int h = 0; h < halves; ++h) {
          constexpr int share = columns / Cluster;
          const int first = in_cluster * share;
          const int column = n0 + h * (int)p.size.n;
          int part = 0;  // no part begins inside a tile
#pragma unroll
          for (int i = 1; i < Parts; ++i) {
            if (column >= p.b_from[i]) part = i;
          }
          copy_box_to_all<Cluster>(to + (h * columns + first) * gemm_row_bytes, p.b_tiles[part], full + stage * 8, chunk * depth, tap, column - (Parts > 1 ? p.b_from[part] : 0) + first);
        }
      } else {
#pragma unroll
        for (int j = 0; j < boxes; ++j) {
          const int first = in_cluster * (depth / Cluster);
          copy_box_to_all<Cluster>(to + j * box + first * 128, p.b_tiles[0], full + stage * 8, n0 + j * 64, chunk * depth + first, tap);
        }
      }
    };
    int stage = 0, ahead = 0;
    u32 parity = 1;
    for (int work = first_work; work < work_tiles; work += work_step) {
      locate(work);
      if (Pixels) {
        const int of_h = m0 / p.m_extent[3], of_d = of_h / p.m_extent[2];
        w = p.first[0] + m0 % p.m_extent[3] * p.step[0];
        h = p.first[1] + of_h % p.m_extent[2] * p.step[1];
        n = of_d;
        if (Pixels == 3) {
          d = p.first[2] + of_d % p.m_extent[1] * p.step[2];
          n = of_d / p.m_extent[1];
        }
      }
      if (work == first_work) {
        // Copies of what no step writes start before earlier kernels are done.
        int tap = turn0 / p.chunks, chunk = turn0 % p.chunks;
        for (; Constant && ahead < Stages && ahead < turns; ++ahead) {
          arrive_with(full + ahead * 8, copied);
          copy_b(ahead, tap, chunk);
          if (++chunk == p.chunks) chunk = 0, ++tap;
        }
        wait_for_others();
        let_next_start();
      }
      int tap = turn0 / p.chunks, chunk = turn0 % p.chunks;
      for (int turn = 0; turn < turns; ++turn) {
        if (ahead > 0) {
          --ahead;
        } else {
          wait_barrier(empty + stage * 8, parity);
          arrive_with(full + stage * 8, copied);
          copy_b(stage, tap, chunk);
        }
        copy_a(stage, tap, chunk);
        if (++chunk == p.chunks) chunk = 0, ++tap;
        if (++stage == Stages) stage = 0, parity ^= 1;
      }
      if (PingPong == 0 && boxed && p.shares.splits == 1) {
        for (int g = 0; g < groups; g += stage_per_group ? 1 : groups) {
          wait_barrier(empty + stage * 8, parity);
          if (Finish::boxed_in) {
            copy_epilogue(tiles + stage * bytes, full + stage * 8, m0 + g * 64, stage_per_group ? 1 : groups);
          } else {
            arrive(full + stage * 8);
          }
          if (++stage == Stages) stage = 0, parity ^= 1;
        }
      }
    }
    if (Cluster > 1) meet_cluster();
    return;
  }
  const int group = warp / 4;
  wait_for_others();
  int stage = 0;
  u32 parity = 0;
  // Stages are counted through all work tiles, including those of the other groups.
  auto pass = [&](int count) {
    stage += count;
    parity ^= (u32)(stage / Stages) & 1u;
    stage %= Stages;
  };
  for (int work = first_work, number = 0; work < work_tiles; work += work_step, ++number) {
    locate(work);
    if (PingPong > 0 && number % groups != group) {
      pass(turns);
      continue;
    }
    if (PingPong > 0 && threadIdx.x % 128 == 0) {
      wait_sent();
      if (Finish::boxed_in) copy_epilogue(own_tiles + group * own_bytes, filled + group * 8, m0, blocks_of_rows);
    }
    // A barrier distinguishes a phase from the next only: no one may be more than one phase behind.
    if (PingPong > 0 && number > 0) wait_barrier(order + group * 8, (u32)(number / groups - (group == 0 ? 1 : 0)) & 1u);
    char* const room = (char*)tiles_of_block + Stages * bytes + PingPong * own_bytes + 16 * (Stages + PingPong) + group * (columns * Finish::column_bytes);
    if (fetches && (PingPong > 0 || p.shares.splits == 1)) {
      if (number >= groups && !Finish::boxed_out) meet_group<groups>();
      finish.template fetch_columns<columns>(room, n0, (int)p.size.n);
    }
    f32 sums[blocks_of_rows][BN / 8][4];
    begin_multiplying<blocks_of_rows * BN / 2>(sums[0][0]);
    int before = 0;
    for (int turn = 0; turn < turns; ++turn) {
      wait_barrier(full + stage * 8, parity);
      go_on_multiplying();
      const u32 at = tiles + stage * bytes;
      const u64 a = tile_of(at + (PingPong > 0 ? 0 : group * box), 0), b = tile_of(at + a_bytes, box);
#pragma unroll
      for (int k = 0; k < gemm_row_bytes / 32; ++k) {
#pragma unroll
        for (int i = 0; i < blocks_of_rows; ++i) multiply_tiles<BN, AlongK>(sums[i][0], a + i * (box / 16) + k * 2, b + k * (AlongK ? 2 : 128), H(), turn + k > 0);
      }
      multiplying();
      if (PingPong > 0 && turn + 1 == turns && threadIdx.x % 128 == 0) arrive(order + (group + 1) % groups * 8);
      // The previous iteration is done with its tiles.
      leave_multiplying<1>();
      if (turn > 0 && threadIdx.x % 128 == 0) leave(empty + before * 8);
      before = stage;
      pass(1);
    }
    wait_multiplied<blocks_of_rows * BN / 2>(sums[0][0]);
    if (PingPong > 0 && threadIdx.x % 128 == 0) leave(empty + before * 8);
    const int first_row = m0 + (PingPong > 0 ? 0 : group * 64) + warp % 4 * 16 + lane / 4, first_column = n0 + lane % 4 * 2;
    if (PingPong == 0 && p.shares.splits > 1) {
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) put_part(p.size, p.shares, split, first_row + half * 8, first_column + j * 8, sums[0][j] + half * 2);
      }
      break;
    }
    u32 own = own_tiles + group * own_bytes;
    if (PingPong == 0 && boxed) {
      if (stage_per_group) pass(group);
      own = tiles + stage * bytes + (stage_per_group ? 0 : group * row_of_boxes);
      wait_barrier(full + stage * 8, parity);
    } else if (Finish::boxed_in) {
      wait_barrier(filled + group * 8, (u32)(number / groups) & 1u);
    }
    if (fetches || (PingPong > 0 && Finish::boxed_out)) meet_group<groups>();
    // No branches: what is outside repeats what is inside, and is not stored.
    const int row_in_box = warp % 4 * 16 + (floats ? lane / 4 : lane % 16), vector_in_row = floats ? lane % 4 / 2 : lane / 16;
    const u32 own_row = own + row_in_box * 128 + ((row_in_box & 7 ^ vector_in_row) << 4) + (floats ? lane % 2 * 8 : 0);
    auto place = [&](int unit) {
      PairsOfTwoRows at;
      at.room = room;
      at.width = columns;
      at.in_tile = unit / blocks_of_rows * 16 + lane % 4 * 2;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + unit % blocks_of_rows * 64 + half * 8, column = first_column + (unit / blocks_of_rows * 2 + half) * 8;
        at.in_rows[half] = row < p.size.m;
        at.in_columns[half] = column < p.size.n;
        at.s[half] = at.in_rows[half] ? row : (int)p.size.m - 1;
        at.t[half] = at.in_columns[half] ? column : (int)p.size.n - 8 + lane % 4 * 2;
      }
      return at;
    };
    auto tile = [&](int unit) {
      constexpr int of_box = wide / 16, vectors = 8 / of_box;  // a box's units of sixteen columns; a unit's vectors of 16 bytes
      const int j = unit / blocks_of_rows;
      return (own_row ^ (j % of_box * vectors) << 4) + unit % blocks_of_rows * row_of_boxes + j / of_box * box;
    };
    constexpr int units = columns / 16 * blocks_of_rows;
    // What is read comes a unit ahead. Floats from boxes alone do not: they are near, and there are no registers for two units of them.
    constexpr int ahead = floats && !Finish::reads_far ? 0 : 1;
    typename Finish::template SameOf<PairsOfTwoRows> same;
    typename Finish::template HeldBy<PairsOfTwoRows> held[1 + ahead];
    if (ahead > 0) finish.rows(held[0], place(0), tile(0));
#pragma unroll
    for (int unit = 0; unit < units; ++unit) {
      if (unit % blocks_of_rows == 0) finish.columns(same, place(unit));
      if (unit + ahead < units) finish.rows(held[(unit + ahead) % (1 + ahead)], place(unit + ahead), tile(unit + ahead));
      f32 of_unit[halves * 8];
#pragma unroll
      for (int e = 0; e < halves * 8; ++e) of_unit[e] = sums[unit % blocks_of_rows][e / 8 * (columns / 8) + unit / blocks_of_rows * 2 + e / 4 % 2][e % 4];
      finish.behind(place(unit), of_unit, same, held[unit % (1 + ahead)], tile(unit));
    }
    if (Finish::boxed_out) {
      show_to_matrix_units();
      meet_group<groups>();
      if (threadIdx.x % 128 == 0) {
#pragma unroll
        for (int i = 0; i < blocks_of_rows; ++i) {
#pragma unroll
          for (int j = 0; j < columns / wide; ++j) {
            if (n0 + j * wide < p.size.n) send_box(own + i * row_of_boxes + j * box, p.out_tiles, n0 + j * wide, 0, m0 + (PingPong > 0 ? i : group) * 64);
          }
        }
        commit_sent();
      }
      if constexpr (part > 0) {
        // The last box would overwrite columns of the next tile.
        constexpr int eights = part / 8;
        for (int e = threadIdx.x % 128; e < blocks_of_rows * 64 * eights; e += 128) {
          const int row = e / eights, c = e % eights, in_box = row % 64, at_row = m0 + (PingPong > 0 ? 0 : group * 64) + row, column = n0 + columns - part + c * 8;
          const char* const from = (const char*)tiles_of_block + (own - tiles) + row / 64 * row_of_boxes + columns / 64 * box + in_box * 128 + ((in_box & 7 ^ c) << 4);
          if (at_row < p.size.m && column < p.size.n) *(uint4*)finish.boxed_row(at_row, column) = *(const uint4*)from;
        }
      }
    }
    if (PingPong == 0) break;
  }
  if (Finish::boxed_out && threadIdx.x % 128 == 0) wait_sent();
  if (Cluster > 1) meet_cluster();  // others still say that they are done with a stage
}
#else
// Never launched on GPUs without these instructions.
template <class H, int BM, int BN, int Stages, int PingPong, int Cluster, bool AlongK, int Pixels, bool Constant, int Parts, class Finish>
__device__ void gemm_by_tiles(const TilesParametersOf<Parts>&, Finish) {}
#endif
