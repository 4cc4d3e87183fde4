#ifdef INGOT_WARPGROUPS
// The position of a head.
template <class H> struct HeadAt {
  int at[3][2];  // coordinates of Q's, K's and V's head along the outer axes of their tensor maps
  H* out;        // the head's rows
};
// A work tile: 64 queries of one head for each group. Each group has one of its own, or (shared) they have one together and divide its keys.
struct WorkTile {
  int head, first;  // query
  bool shared;
};
// The work tiles of a launch, in order: `whole` of `in_head` * `heads` work tiles with a tile for each group; then the tiles of the others, and the `rest` last
// ones of each head, one by one.
template <int Groups, bool Shares> struct WorkTiles {
  int heads, in_head, rest, whole, count;
  // A block takes every gridDim.x-th work tile. Undivided ones that do not fill a round are cut if that takes less time.
  __device__ __forceinline__ WorkTiles(int tiles, int heads, int turns) : heads(heads) {
    const bool can_share = Shares && turns >= Groups;
    in_head = can_share ? tiles / Groups : (tiles + Groups - 1) / Groups;
    rest = can_share ? tiles % Groups : 0;
    const int blocks = gridDim.x, all = in_head * heads, full = all / blocks * blocks;
    // In iterations of an undivided work tile. Groups with keys of their own read more than the second-level cache delivers.
    const int of_whole = turns + 1, of_tile = turns * 2 / 5 + 2;
    auto time = [&](int whole) {
      const int open = whole % blocks, tiles_alone = (all - whole) * Groups + rest * heads, idle = open > 0 ? blocks - open : 0;
      const int after = tiles_alone > idle ? tiles_alone - idle : 0;
      return (whole + blocks - 1) / blocks * of_whole + (after + blocks - 1) / blocks * of_tile;
    };
    whole = can_share && time(full) < time(all) ? full : all;
    count = whole + (all - whole) * Groups + rest * heads;
  }
  __device__ __forceinline__ WorkTile operator[](int index) const {
    int tile = index - whole;
    if (!Shares || tile < 0) return {index / in_head, index % in_head * (Groups * 64), false};
    const int cut = in_head * heads - whole;
    if (tile < cut * Groups) {
      index = whole + tile / Groups;
      return {index / in_head, index % in_head * (Groups * 64) + tile % Groups * 64, true};
    }
    tile -= cut * Groups;
    return {tile / rest, (in_head * Groups + tile % rest) * 64, true};
  }
};
// Groups of four warps with 64 queries each share keys and values. One more group has few registers: one of its threads copies queries, keys and values as boxes,
// to a ring of Stages buffers. A block takes work tiles one after another. The previous iteration's product with values runs during an iteration's softmax.
// First: of the first iteration's keys, the last ones, no more than these are inside.
template <int Depth, int Width, int Groups, int Keys, int First, int Stages, class H, class Locate>
__device__ __forceinline__ void attend_by_boxes(const unsigned long (&maps)[3][16], i64 so, int S, int T, int heads, f32 unit, Locate locate) {
  constexpr int D = filled_up(Depth), E = filled_up(Width), dp = (D + 63) / 64 * 64, ep = (E + 63) / 64 * 64;
  constexpr u32 q_bytes = 64 * dp * 2, out_bytes = 64 * ep * 2, part_bytes = (E / 2 + 4) * 512, k_bytes = Keys * dp * 2, v_bytes = Keys * ep * 2;
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  const u32 q_rows = shared_address(tiles_of_block), results = q_rows + Groups * q_bytes, k_rows = results + (Groups * out_bytes > part_bytes ? Groups * out_bytes : part_bytes),
            v_rows = k_rows + Stages * k_bytes;
  const u32 k_full = v_rows + Stages * v_bytes, k_empty = k_full + Stages * 8, v_full = k_empty + Stages * 8, v_empty = v_full + Stages * 8, q_full = v_empty + Stages * 8,
            q_empty = q_full + Groups * 8;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, turns = (T + Keys - 1) / Keys;
  // Heads of 56 and 64 share tiles: those of 40 were 1.2 times as slow on an H100.
  constexpr bool shares = D == 64 && E == 64;
  const WorkTiles<Groups, shares> work_tiles((S + 63) / 64, heads, turns);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < Stages; ++s) {
      make_barrier(k_full + s * 8, 1);
      make_barrier(k_empty + s * 8, Groups);
      make_barrier(v_full + s * 8, 1);
      make_barrier(v_empty + s * 8, Groups);
    }
#pragma unroll
    for (int g = 0; g < 2 * Groups; ++g) make_barrier(q_full + g * 8, 1);
    show_barriers();
  }
  __syncthreads();
  wait_for_others();
  let_next_start();
  // Buffers of keys and values that were passed; the current one and the parity of its phase.
  u32 passed = 0, stage = 0, parity = 0, q_parity = 0;
  auto pass = [&](int buffers) {
    passed += (u32)buffers;
    stage = passed % Stages;
    parity = passed / Stages & 1;
  };
  constexpr int least_registers = 24, max_registers = 240, registers = 512 / (Groups + 1) / 8 * 8, left = ((Groups + 1) * registers - least_registers) / Groups / 8 * 8;
  if (warp >= Groups * 4) {
    leave_registers<least_registers>();
    if (threadIdx.x != Groups * 128) return;
#pragma unroll
    for (int k = 0; k < 3; ++k) fetch_map(maps[k]);
    for (int k = blockIdx.x; k < work_tiles.count; k += gridDim.x) {
      const WorkTile work = work_tiles[k];
      const HeadAt<H> head = locate(work.head);
      auto copy = [&](u32 to, int of, u32 barrier, u32 bytes, int columns, int first) {
        arrive_with(barrier, bytes);
#pragma unroll
        for (int c = 0; c < columns; c += 64) copy_box_async(to + bytes / columns * c, maps[of], barrier, c, first, head.at[of][0], head.at[of][1]);
      };
      // From the last keys to the first.
      for (int turn = 0; turn < turns; ++turn) {
        wait_barrier(k_empty + stage * 8, parity ^ 1);
        copy(k_rows + stage * k_bytes, 1, k_full + stage * 8, k_bytes, dp, (turns - 1 - turn) * Keys);
        for (int g = 0; turn == 0 && g < Groups; ++g) {
          wait_barrier(q_empty + g * 8, q_parity ^ 1);
          copy(q_rows + g * q_bytes, 0, q_full + g * 8, q_bytes, dp, work.first + (work.shared ? 0 : g * 64));
        }
        wait_barrier(v_empty + stage * 8, parity ^ 1);
        copy(v_rows + stage * v_bytes, 2, v_full + stage * 8, v_bytes, ep, (turns - 1 - turn) * Keys);
        pass(1);
      }
      q_parity ^= 1;
    }
    return;
  }
  take_registers<left < max_registers ? left : max_registers>();
  // Said by a lane, so that the compiler knows that it is the same in a warp: buffers and their descriptors are in uniform registers.
  const int group = __shfl_sync(0xffffffffu, warp / 4, 0), row_in_group = warp % 4 * 16 + lane / 4;
  const u64 q_tile = tile_of(q_rows + group * q_bytes, 0), k_tile = tile_of(k_rows, 0), v_tile = tile_of(v_rows, Keys * 128);
  f32 o[E / 8][4], row_max[2], total[2], shrink[2];
  u32 p[Keys / 16][4];
  auto multiply_keys = [&](auto& s, auto keys) {
    const u64 at = k_tile + stage * (k_bytes / 16);
    multiply_tiles<keys.n, true>(s[0], q_tile, at, H(), false);
#pragma unroll
    for (int d = 1; d < D / 16; ++d) multiply_tiles<keys.n, true>(s[0], q_tile + d / 4 * 512 + d % 4 * 2, at + d / 4 * (Keys * 8) + d % 4 * 2, H(), true);
    multiplying();
  };
  auto multiply_values = [&](u32 stage, auto keys) {
    const u64 at = v_tile + stage * (v_bytes / 16);
#pragma unroll
    for (int t = 0; t < keys.n / 16; ++t) multiply_rows<E, false>(o[0], p[t], at + t * 128, H());
    multiplying();
  };
  auto unmasked = [](i64, i64, f32 score) { return score; };
  const f32 nothing = of_bits(0xff800000u);  // -infinity
  f32* const parts = (f32*)tiles_of_block + Groups * q_bytes / 4 + threadIdx.x % 128;
  for (int k = blockIdx.x; k < work_tiles.count; k += gridDim.x) {
    const WorkTile work = work_tiles[k];
    // A group computes every `step`-th iteration of its tile. Then it arrives for all that step over it.
    const int step = work.shared ? Groups : 1;
    const bool arrives = threadIdx.x % 128 < step, arrives_alone = threadIdx.x % 128 == 0;
    int turn = work.shared ? group : 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) row_max[i] = nothing, total[i] = 0.0f;
    zero(o);
    pass(turn);
    wait_barrier(q_full + group * 8, q_parity);
    auto begin = [&](auto keys, auto seen) {
      constexpr int count = keys.n;
      f32 s[count / 8][4];
      zero(s);
      wait_barrier(k_full + stage * 8, parity);
      begin_multiplying<count / 2>(s[0]);
      multiply_keys(s, keys);
      wait_multiplied<count / 2>(s[0]);
      if (arrives) arrive(k_empty + stage * 8);
      if (arrives_alone && turn + step >= turns) arrive(q_empty + group * 8);
      online_softmax<count / 8, seen.which, false>(s, row_max, total, shrink, (turns - 1 - turn) * Keys, 0, 1, T, 1.0f, unit, unmasked);
      pack<H, count / 16>(p, s);
#pragma unroll
      for (int t = count / 16; t < Keys / 16; ++t) p[t][0] = p[t][1] = p[t][2] = p[t][3] = 0;
      turn += step;
    };
    // After an iteration of so many keys.
    auto go_on = [&](auto keys) {
      const u32 before = stage;
      f32 s[Keys / 8][4];
      zero(s);  // otherwise ptxas may wait after each product
      wait_barrier(v_full + stage * 8, parity);
      pass(step);
      wait_barrier(k_full + stage * 8, parity);
      hold<keys.n / 4>(p[0]);
      hold<E / 2>(o[0]);
      begin_multiplying<Keys / 2>(s[0]);
      multiply_keys(s, Count<Keys>());
      multiply_values(before, keys);
      leave_multiplying<1>();
      hold<Keys / 2>(s[0]);
      if (arrives) arrive(k_empty + stage * 8);
      if (arrives_alone && turn + step >= turns) arrive(q_empty + group * 8);
      online_softmax<Keys / 8, seen_all, false>(s, row_max, total, shrink, 0, 0, 1, T, 1.0f, unit, unmasked);
      computed(total[0] + total[1]);
      wait_multiplied<E / 2>(o[0]);
      hold<keys.n / 4>(p[0]);
      if (arrives) arrive(v_empty + before * 8);
      shrink_by(o, shrink);
      pack<H, Keys / 16>(p, s);
      turn += step;
    };
    if (First == Keys) {
      begin(Count<Keys>(), Of<seen_asked>());
    } else if (turn == 0) {
      begin(Count<First>(), Of<seen_asked>());
      if (turn < turns) go_on(Count<First>());
    } else {
      begin(Count<Keys>(), Of<seen_all>());
    }
    while (turn < turns) go_on(Count<Keys>());
    wait_barrier(v_full + stage * 8, parity);
    hold<Keys / 4>(p[0]);
    begin_multiplying<E / 2>(o[0]);
    multiply_values(stage, Count<Keys>());
    wait_multiplied<E / 2>(o[0]);
    hold<Keys / 4>(p[0]);
    if (arrives) arrive(v_empty + stage * 8);
    pass(turns - (turn - step));
    q_parity ^= 1;
    if (work.shared) {
      // A group's sums go through shared memory to the previous group, which adds its own. Before, others read their results there.
      meet_groups<Groups>();
#pragma unroll
      for (int g = Groups - 1; g > 0; --g) {
        if (group == g) {
#pragma unroll
          for (int e = 0; e < E / 2; ++e) parts[e * 128] = o[e / 4][e % 4];
#pragma unroll
          for (int i = 0; i < 2; ++i) parts[(E / 2 + i) * 128] = row_max[i], parts[(E / 2 + 2 + i) * 128] = total[i];
        }
        meet_groups<Groups>();
        if (group == g - 1) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const f32 other = parts[(E / 2 + i) * 128], m = fmaxf(row_max[i], other), base = m == nothing ? 0.0f : m;
            const f32 own = power_of_2((row_max[i] - base) * unit), others = power_of_2((other - base) * unit);
            row_max[i] = m;
            total[i] = fmaf(total[i], own, parts[(E / 2 + 2 + i) * 128] * others);
#pragma unroll
            for (int e = 0; e < E / 4; ++e) {
              f32& sum = o[e / 2][2 * i + e % 2];
              sum = fmaf(sum, own, parts[(e / 2 * 4 + 2 * i + e % 2) * 128] * others);
            }
          }
        }
      }
      meet_groups<Groups>();
      if (group > 0) continue;
    }
    // Rows of the result go through shared memory, to be written in vectors of 16 bytes.
    H* const own = (H*)tiles_of_block + (Groups * q_bytes + group * out_bytes) / 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      total[i] += __shfl_xor_sync(0xffffffffu, total[i], 1);
      total[i] += __shfl_xor_sync(0xffffffffu, total[i], 2);
      const f32 by = over(total[i]);
#pragma unroll
      for (int n = 0; n < E / 8; ++n) *(u32*)(own + n / 8 * 64 * 64 + vector_offset(row_in_group + i * 8, n % 8) + lane % 4 * 2) = both<H>(o[n][2 * i] * by, o[n][2 * i + 1] * by);
    }
    __syncwarp();
    H* const out = locate(work.head).out;
#pragma unroll
    for (int k = lane; k < 16 * (Width / 8); k += 32) {
      const int r = warp % 4 * 16 + k / (Width / 8), c = k % (Width / 8), query = work.first + group * 64 + r;
      if (query < S) *(uint4*)(out + query * so + c * 8) = *(const uint4*)(own + c / 8 * 64 * 64 + vector_offset(r, c % 8));
    }
  }
}
#endif
