// Heads are padded with zeros to whole fragments of 16 elements.
__device__ constexpr int filled_up(int elements) { return (elements + 15) / 16 * 16; }
// Copies rows [first, first + Rows) of a matrix of `Own` columns to shared memory as [Columns / 64][Rows][64], with zeros after its end.
template <int Rows, int Own, int Threads, bool Aligned, class H>
__device__ __forceinline__ void copy_rows_async(H* to, const H* from, i64 stride, i64 first, i64 rows) {
  constexpr int Columns = filled_up(Own), vectors = Columns / 8, own = Own / 8, step = Threads / vectors;
  if constexpr (Aligned && Threads % vectors == 0 && step % 8 == 0) {
    // A thread copies the same vector of several rows, all at one place among eight.
    const int r = threadIdx.x / vectors, c = threadIdx.x % vectors, left = (int)(rows - first) - r;
    const u32 there = shared_address(to + c / 8 * Rows * 64 + vector_offset(r, c % 8));
    const H* at = from + (first + r) * stride + c * 8;
#pragma unroll
    for (int k = 0; k < Rows; k += step) {
      // Past the end nothing is read.
      if (k + step <= Rows || k + r < Rows) copy_async_or_zero(there + k * 128, c < own ? at : from, k < left && c < own ? 16u : 0u);
      at += step * stride;
    }
  } else if constexpr (Aligned) {
    for (int k = threadIdx.x; k < Rows * vectors; k += Threads) {
      const int r = k / vectors, c = k % vectors;
      const bool there = first + r < rows && c < own;
      copy_async_or_zero(shared_address(to + c / 8 * Rows * 64 + vector_offset(r, c % 8)), from + (there ? (first + r) * stride + c * 8 : 0), there ? 16u : 0u);
    }
  } else {
    for (int k = threadIdx.x; k < Rows * Columns; k += Threads) {
      const int r = k / Columns, c = k % Columns;
      H zero;
      zero.bits = 0;
      to[c / 64 * Rows * 64 + vector_offset(r, c / 8 % 8) + c % 8] = first + r < rows && c < Own ? from[(first + r) * stride + c] : zero;
    }
  }
}
// Which of an iteration's keys the queries see: all; some, so that each is checked; or (asked) all or some, by the coordinates.
enum Seen { seen_all, seen_some, seen_asked };
template <Seen Which> struct Of { static constexpr Seen which = Which; };
template <bool Is> struct Said { static constexpr bool is = Is; };
template <int N> struct Count { static constexpr int n = N; };
// Replaces the scores of two rows with N * 8 keys from t0 on by powers of 2, and scales down the previous sums. `row`: the first of this lane.
template <int N, Seen Which, bool Causal, int All, class Mask>
__device__ __forceinline__ void online_softmax(f32 (&s)[All][4], f32* row_max, f32* total, f32* shrink, int t0, int row, int S, int T, f32 scale, f32 unit, Mask mask) {
  const f32 nothing = of_bits(0xff800000u);  // -infinity
  const int lane = threadIdx.x % 32, rows[2] = {row < S ? row : S - 1, row + 8 < S ? row + 8 : S - 1};
  if (Which == seen_all || (Which == seen_asked && t0 + N * 8 <= T && (!Causal || t0 + N * 8 <= row - lane / 4 + 1))) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = mask((i64)rows[i / 2], (i64)(t0 + n * 8 + lane % 4 * 2 + i % 2), s[n][i] * scale);
    }
  } else {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int t = t0 + n * 8 + lane % 4 * 2 + i % 2;
        const f32 score = mask((i64)rows[i / 2], (i64)(t < T ? t : T - 1), s[n][i] * scale);
        s[n][i] = t < T && (!Causal || t <= row + i / 2 * 8) ? score : nothing;
      }
    }
  }
  f32 now[4] = {s[0][0], s[0][1], s[0][2], s[0][3]}, sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, base[2];
#pragma unroll
  for (int n = 1; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) now[i] = fmaxf(now[i], s[n][i]);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    f32 m = fmaxf(row_max[i], fmaxf(now[2 * i], now[2 * i + 1]));
    m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
    m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
    base[i] = m == nothing ? 0.0f : m;
    // exp(x) = 2^(unit x); masked scores stay -infinity.
    shrink[i] = power_of_2((row_max[i] - base[i]) * unit);
    base[i] *= unit;
    row_max[i] = m;
  }
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s[n][i] = power_of_2(fmaf(s[n][i], unit, -base[i / 2]));
      sum[i] += s[n][i];
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) total[i] = fmaf(total[i], shrink[i], sum[2 * i] + sum[2 * i + 1]);
}
template <int N>
__device__ __forceinline__ void shrink_by(f32 (&o)[N][4], const f32* shrink) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) o[n][i] *= shrink[i / 2];
  }
}
template <int N>
__device__ __forceinline__ void zero(f32 (&o)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) o[n][i] = 0.0f;
  }
}
// N * 16 keys' scores as fragments of a left operand.
template <class H, int N, int P, int S>
__device__ __forceinline__ void pack(u32 (&p)[P][4], const f32 (&s)[S][4]) {
#pragma unroll
  for (int t = 0; t < N; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) p[t][i] = both<H>(s[2 * t + i / 2][i % 2 * 2], s[2 * t + i / 2][i % 2 * 2 + 1]);
  }
}
// A row without keys gives zeros.
__device__ __forceinline__ f32 over(f32 total) { return total == 0.0f ? 0.0f : 1.0f / total; }
// Of a block that has a part of the keys: which one of how many, and where its sums go, [queries][Width + 4]: those of the values, then the largest score and the sum of the powers.
struct PartOfKeys {
  f32* sums;
  int part, parts;
};
struct AllKeys {
  static constexpr f32* sums = nullptr;
  static constexpr int part = 0, parts = 1;
};
// Single warps with 16 queries each. An iteration's Keys are divided among Splits groups of warps.
template <int Depth, int Width, int Warps, int Splits, int Keys, bool Aligned, bool Causal, class H, class Mask, class Part = AllKeys>
__device__ __forceinline__ void attend(const H* q, const H* k, const H* v, H* out, i64 sq, i64 sk, i64 sv, i64 so, i64 S, i64 T, i64 s0, f32 scale, f32 unit, Mask mask,
                                       const Part& of = Part()) {
  constexpr int D = filled_up(Depth), E = filled_up(Width);
  constexpr int threads = Warps * Splits * 32, queries = Warps * 16, own = Keys / Splits, dp = (D + 63) / 64 * 64, ep = (E + 63) / 64 * 64;
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  H* const q_rows = (H*)tiles_of_block;
  H* const k_rows = q_rows + queries * dp;
  H* const v_rows = k_rows + 2 * Keys * dp;
  const int warp = threadIdx.x / 32 % Warps, split = threadIdx.x / 32 / Warps, lane = threadIdx.x % 32, row = (int)s0 + warp * 16 + lane / 4;
  const i64 last = Causal && s0 + queries < T ? s0 + queries : T;
  const int all_turns = (int)((last + Keys - 1) / Keys), share = (all_turns + of.parts - 1) / of.parts, begin = of.part * share;
  const int turns = begin + share < all_turns ? begin + share : all_turns;
  auto copy_turn = [&](int turn) {
    if (turn < turns) {
      copy_rows_async<Keys, Depth, threads, Aligned>(k_rows + (turn & 1) * Keys * dp, k, sk, (i64)turn * Keys, T);
      copy_rows_async<Keys, Width, threads, Aligned>(v_rows + (turn & 1) * Keys * ep, v, sv, (i64)turn * Keys, T);
    }
    commit_copies();
  };
  copy_rows_async<queries, Depth, threads, Aligned>(q_rows, q, sq, s0, S);
  copy_turn(begin);
  copy_turn(begin + 1);
  wait_copies<1>();
  __syncthreads();
  u32 a[D / 16][4];
#pragma unroll
  for (int d = 0; d < D / 16; ++d) four_matrices(a[d], shared_address(q_rows + d / 4 * queries * 64 + vector_offset(warp * 16 + lane % 16, d % 4 * 2 + lane / 16)));
  const f32 nothing = of_bits(0xff800000u);  // -infinity
  f32 o[E / 8][4], row_max[2] = {nothing, nothing}, total[2] = {0.0f, 0.0f}, shrink[2];
  zero(o);
  for (int turn = begin; turn < turns; ++turn) {
    const H* const kt = k_rows + (turn & 1) * Keys * dp;
    const H* const vt = v_rows + (turn & 1) * Keys * ep;
    f32 s[own / 8][4];
    zero(s);
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
#pragma unroll
      for (int n = 0; n < own / 16; ++n) {
        u32 b[4];
        four_matrices(b, shared_address(kt + d / 4 * Keys * 64 + vector_offset(split * own + n * 16 + lane % 8 + lane / 16 * 8, d % 4 * 2 + lane / 8 % 2)));
        multiply(s[2 * n], a[d], b, H());
        multiply(s[2 * n + 1], a[d], b + 2, H());
      }
    }
    online_softmax<own / 8, seen_asked, Causal>(s, row_max, total, shrink, turn * Keys + split * own, row, (int)S, (int)T, scale, unit, mask);
    shrink_by(o, shrink);
    u32 p[own / 16][4];
    pack<H, own / 16>(p, s);
#pragma unroll
    for (int t = 0; t < own / 16; ++t) {
#pragma unroll
      for (int n = 0; n < E / 16; ++n) {
        u32 b[4];
        four_matrices_transposed(b, shared_address(vt + n / 4 * Keys * 64 + vector_offset(split * own + t * 16 + lane % 16, n % 4 * 2 + lane / 16)));
        multiply(o[2 * n], p[t], b, H());
        multiply(o[2 * n + 1], p[t], b + 2, H());
      }
    }
    __syncthreads();
    if (turn + 1 == turns) break;
    copy_turn(turn + 2);
    wait_copies<1>();
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    total[i] += __shfl_xor_sync(0xffffffffu, total[i], 1);
    total[i] += __shfl_xor_sync(0xffffffffu, total[i], 2);
  }
  if constexpr (Splits == 1) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const i64 at = row + i * 8;
      const f32 by = over(total[i]);
      if (at >= S) continue;
#pragma unroll
      for (int n = 0; n < Width / 8; ++n) {
        H* const to = out + at * so + n * 8 + lane % 4 * 2;
        const u32 h = both<H>(o[n][2 * i] * by, o[n][2 * i + 1] * by);
        if (Aligned) {
          *(u32*)to = h;
        } else {
          to[0].bits = (unsigned short)h;
          to[1].bits = (unsigned short)(h >> 16);
        }
      }
    }
  } else {
    // The splits' sums of a row, each after its largest score and total; they replace the keys and values.
    static_assert(Aligned && queries * Splits * (E + 4) * 4 <= 4 * Keys * (dp + ep), "no room");
    f32* const parts = (f32*)k_rows;
    f32* const mine = parts + (split * queries + warp * 16 + lane / 4) * (E + 4);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      f32* const to = mine + i * 8 * (E + 4);
#pragma unroll
      for (int n = 0; n < E / 8; ++n) {
        to[n * 8 + lane % 4 * 2] = o[n][2 * i];
        to[n * 8 + lane % 4 * 2 + 1] = o[n][2 * i + 1];
      }
      if (lane % 4 == 0) {
        to[E] = row_max[i];
        to[E + 1] = total[i];
      }
    }
    __syncthreads();
    for (int e = threadIdx.x; e < queries * (Width / 4); e += threads) {
      const int r = e / (Width / 4), c = e % (Width / 4) * 4;
      const f32* const from = parts + r * (E + 4);
      f32 m = nothing, sum = 0.0f, x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int w = 0; w < Splits; ++w) m = fmaxf(m, from[w * queries * (E + 4) + E]);
      if (m == nothing) m = 0.0f;
#pragma unroll
      for (int w = 0; w < Splits; ++w) {
        const f32* const part = from + w * queries * (E + 4);
        const f32 by = power_of_2((part[E] - m) * unit);
        sum = fmaf(part[E + 1], by, sum);
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = fmaf(part[c + i], by, x[i]);
      }
      if (s0 + r >= S) continue;
      if (of.sums != nullptr) {
        f32* const to = of.sums + r * (Width + 4);
        *(float4*)(to + c) = make_float4(x[0], x[1], x[2], x[3]);
        if (c == 0) {
          to[Width] = m;
          to[Width + 1] = sum;
        }
        continue;
      }
      const f32 by = over(sum);
      u32* const to = (u32*)(out + (s0 + r) * so + c);
      to[0] = both<H>(x[0] * by, x[1] * by);
      to[1] = both<H>(x[2] * by, x[3] * by);
    }
  }
}
// A warp joins what blocks have of a query's keys. sums: [parts][rows][Width + 4], from this query's row on; at most 32 parts, of which each lane weighs one.
template <int Width, class H>
__device__ __forceinline__ void join_parts(const f32* sums, int parts, int rows, f32 unit, H* out) {
  const int lane = threadIdx.x % 32;
  const i64 step = (i64)rows * (Width + 4);
  const f32* const mine = sums + (lane < parts ? lane : 0) * step + Width;
  // A part without keys has a sum of 0, and no score.
  const f32 score = mine[0], total = lane < parts ? mine[1] : 0.0f;
  f32 m = total == 0.0f ? of_bits(0xff800000u) : score;  // -infinity
#pragma unroll
  for (int k = 16; k > 0; k /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, k));
  const f32 weight = total == 0.0f ? 0.0f : power_of_2((score - m) * unit);
  f32 sum = total * weight;
#pragma unroll
  for (int k = 16; k > 0; k /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
  const f32 by = over(sum);
#pragma unroll
  for (int first = 0; first < Width; first += 128) {
    const int c = first + lane * 4, from = c < Width ? c : 0;
    f32 x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 16
    for (int n = 0; n < parts; ++n) {
      const f32 of_part = __shfl_sync(0xffffffffu, weight, n);
      const float4 part = *(const float4*)(sums + n * step + from);
      if (of_part == 0.0f) continue;  // of a part without keys, which may be anything
      x[0] = fmaf(part.x, of_part, x[0]), x[1] = fmaf(part.y, of_part, x[1]);
      x[2] = fmaf(part.z, of_part, x[2]), x[3] = fmaf(part.w, of_part, x[3]);
    }
    if (c >= Width) continue;
    u32* const to = (u32*)(out + c);
    to[0] = both<H>(x[0] * by, x[1] * by);
    to[1] = both<H>(x[2] * by, x[3] * by);
  }
}
#ifdef INGOT_WARPGROUPS
// Groups of four warps with 64 queries each share keys and values, which are copied to a ring of Stages buffers. Overlap: the previous iteration's
// product with values runs during an iteration's softmax.
template <int Depth, int Width, int Groups, int Keys, int Stages, bool Overlap, bool Columns, bool Causal, class H, class Mask>
__device__ __forceinline__ void attend_in_groups(const H* q, const H* k, const H* v, H* out, i64 sq, i64 sk, i64 sv, i64 so, i64 S, i64 T, i64 s0, f32 scale, f32 unit, Mask mask) {
  constexpr int D = filled_up(Depth), E = filled_up(Width);
  constexpr int threads = Groups * 128, queries = Groups * 64, dp = (D + 63) / 64 * 64, ep = (E + 63) / 64 * 64;
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  H* const q_rows = (H*)tiles_of_block;  // replaced by the result at the end
  H* const k_rows = q_rows + queries * (dp > ep ? dp : ep);
  H* const v_rows = k_rows + Stages * Keys * dp;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = (int)s0 + warp * 16 + lane / 4;
  const i64 last = Causal && s0 + queries < T ? s0 + queries : T;
  const int turns = (int)((last + Keys - 1) / Keys);
  // Iterations go from the last keys to the first. Copy group j: the keys of iteration j, and the values that are multiplied at the same time.
  auto copy_group = [&](int j) {
    const int values = j - (Overlap ? 1 : 0);
    if (j < turns) copy_rows_async<Keys, Depth, threads, true>(k_rows + j % Stages * Keys * dp, k, sk, (i64)(turns - 1 - j) * Keys, T);
    if (values >= 0 && values < turns) copy_rows_async<Keys, Width, threads, true>(v_rows + values % Stages * Keys * ep, v, sv, (i64)(turns - 1 - values) * Keys, T);
    commit_copies();
  };
  f32 s[Keys / 8][4], o[E / 8][4];
  u32 p[Keys / 16][4];
  const u64 q_tile = tile_of(shared_address(q_rows + warp / 4 * 64 * 64), 0), k_tile = tile_of(shared_address(k_rows), 0), v_tile = tile_of(shared_address(v_rows), Keys * 128);
  auto multiply_keys = [&](int turn) {
    const u64 at = k_tile + (u32)(turn % Stages) * (Keys * dp / 8);
    multiply_tiles<Keys, true>(s[0], q_tile, at, H(), false);
#pragma unroll
    for (int d = 1; d < D / 16; ++d) multiply_tiles<Keys, true>(s[0], q_tile + d / 4 * (queries * 8) + d % 4 * 2, at + d / 4 * (Keys * 8) + d % 4 * 2, H(), true);
    multiplying();
  };
  auto multiply_values = [&](int turn) {
    const u64 at = v_tile + (u32)(turn % Stages) * (Keys * ep / 8);
#pragma unroll
    for (int t = 0; t < Keys / 16; ++t) multiply_rows<E, false>(o[0], p[t], at + t * 128, H());
    multiplying();
  };
  const f32 nothing = of_bits(0xff800000u);  // -infinity
  f32 row_max[2] = {nothing, nothing}, total[2] = {0.0f, 0.0f}, shrink[2];
  copy_rows_async<queries, Depth, threads, true>(q_rows, q, sq, s0, S);
#pragma unroll 1
  for (int j = 0; j < Stages; ++j) copy_group(j);
  // If there is room for all iterations, nothing waits later.
  const bool all = turns <= Stages;
  if (Overlap && all) copy_group(Stages);
  // What the mask adds to all scores of a key; mostly it is 0.
  f32* const columns = (f32*)(v_rows + Stages * Keys * ep);
  bool adds = false;
  if (Columns) {
    for (int t = threadIdx.x; t < turns * Keys; t += threads) {
      columns[t] = mask(s0, (i64)(t < (int)T ? t : (int)T - 1), 0.0f);
      adds |= columns[t] != 0.0f;
    }
  }
  zero(o);
  wait_copies<Stages - 1>();
  show_to_matrix_units();
  const bool plain = __syncthreads_or(adds) == 0 && Columns && scale > 0.0f;
  auto go_through = [&](auto unmasked) {
    // Scores without a mask are scaled in the exponent.
    constexpr bool later = unmasked.is;
    auto masked = [&](i64 at, i64 t, f32 score) { return later ? score : Columns ? score + columns[t] : mask(at, t, score); };
    const f32 times = later ? 1.0f : scale, in_exponent = later ? scale * unit : unit;
    begin_multiplying<Keys / 2>(s[0]);
    multiply_keys(0);
    wait_multiplied<Keys / 2>(s[0]);
    online_softmax<Keys / 8, seen_asked, Causal>(s, row_max, total, shrink, (turns - 1) * Keys, row, (int)S, (int)T, times, in_exponent, masked);
    pack<H, Keys / 16>(p, s);
    auto show_copies = [] {
      wait_copies<0>();
      show_to_matrix_units();
      __syncthreads();
    };
    auto go_on = [&](int turn, auto seen) {
      if constexpr (!Overlap) {
        hold<Keys / 4>(p[0]);
        begin_multiplying<E / 2>(o[0]);
        multiply_values(turn - 1);
        wait_multiplied<E / 2>(o[0]);
        hold<Keys / 4>(p[0]);
      }
      // All warps are done with the previous keys, and with the values multiplied meanwhile: the next ones replace them.
      if (all) {
        if (turn == 1) show_copies();
      } else {
        wait_copies<Stages - 2>();
        show_to_matrix_units();
        __syncthreads();
        copy_group(turn - 1 + Stages);
      }
      if constexpr (Overlap) {
        hold<Keys / 4>(p[0]);
        hold<E / 2>(o[0]);
        begin_multiplying<Keys / 2>(s[0]);
        multiply_keys(turn);
        multiply_values(turn - 1);
        leave_multiplying<1>();
        hold<Keys / 2>(s[0]);
      } else {
        begin_multiplying<Keys / 2>(s[0]);
        multiply_keys(turn);
        wait_multiplied<Keys / 2>(s[0]);
      }
      // No branch here: ptxas would wait for all products after it.
      online_softmax<Keys / 8, seen.which, Causal>(s, row_max, total, shrink, (turns - 1 - turn) * Keys, row, (int)S, (int)T, times, in_exponent, masked);
      if constexpr (Overlap) {
        computed(total[0] + total[1]);
        wait_multiplied<E / 2>(o[0]);
        hold<Keys / 4>(p[0]);
      }
      shrink_by(o, shrink);
      pack<H, Keys / 16>(p, s);
    };
    int turn = 1;
    if constexpr (Causal) {
      for (; turn < turns && (turns - turn) * Keys > (int)s0 + 1; ++turn) go_on(turn, Of<seen_some>());
    }
    for (; turn < turns; ++turn) go_on(turn, Of<seen_all>());
    // The result replaces queries that are no longer multiplied.
    if (!all || turns == 1) {
      show_copies();
    } else {
      meet_group<Groups>();
    }
    hold<Keys / 4>(p[0]);
    begin_multiplying<E / 2>(o[0]);
    multiply_values(turns - 1);
    wait_multiplied<E / 2>(o[0]);
    hold<Keys / 4>(p[0]);
  };
  if (turns > 0) {
    if (Columns && plain) {
      go_through(Said<true>());
    } else {
      go_through(Said<false>());
    }
  }
  // Rows of the result go through shared memory, to be written in vectors of 16 bytes.
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    total[i] += __shfl_xor_sync(0xffffffffu, total[i], 1);
    total[i] += __shfl_xor_sync(0xffffffffu, total[i], 2);
    const f32 by = over(total[i]);
#pragma unroll
    for (int n = 0; n < E / 8; ++n) *(u32*)(q_rows + n / 8 * queries * 64 + vector_offset(warp * 16 + lane / 4 + i * 8, n % 8) + lane % 4 * 2) = both<H>(o[n][2 * i] * by, o[n][2 * i + 1] * by);
  }
  __syncwarp();
#pragma unroll
  for (int k = lane; k < 16 * (Width / 8); k += 32) {
    const int r = warp * 16 + k / (Width / 8), c = k % (Width / 8);
    if (s0 + r < S) *(uint4*)(out + (s0 + r) * so + c * 8) = *(const uint4*)(q_rows + c / 8 * queries * 64 + vector_offset(r, c % 8));
  }
}
#endif
