// Products by packed weights (run/packed_args.h): only reading B counts. Its numbers become those of a half type in registers, exactly, and matrix instructions multiply them: 16 columns of B are the rows
// of a fragment, up to eight rows of A its columns. A group's sum is multiplied by its scale.

// How A lies in shared memory: halves as they are; a float as three numbers of bfloat16 whose sum it is, each a row of its own.
template <class H>
struct RowsOfPacked {
  typedef H Number;
  static constexpr int parts = 1;
  static __device__ __forceinline__ void put_eight(H* to, int, const H* eight) { write<8>(to, eight); }
};
template <>
struct RowsOfPacked<f32> {
  typedef bf16 Number;
  static constexpr int parts = 3;
  static __device__ __forceinline__ void put_eight(bf16* to, int pitch, const f32* eight) {
    f32 rest[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) rest[e] = eight[e];
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      alignas(16) bf16 out[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        // The upper bits, so that no part overflows. Behind an infinity or NaN the other parts are zero.
        const u32 bits = __float_as_uint(rest[e]), upper = rest[e] != rest[e] ? 0x7fffu : bits >> 16;
        out[e].bits = (unsigned short)upper;
        rest[e] = (upper & 0x7f80u) == 0x7f80u ? 0.0f : rest[e] - value(out[e]);
      }
      write<8>(to + part * pitch, out);
    }
  }
};
// Four pairs of numbers of a half type from what a lane has for one instruction: a word of eight numbers of 4 bits, or two words of four bytes.
template <int Bits>
__device__ __forceinline__ void unpack_numbers(u32* out, const u32* words, f16) {
  // After the bits of 1024 an integer is exact.
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (Bits == 4) {
      out[j] = minus_pairs(((words[0] >> 4 * j) & 0x000f000fu) | 0x64006400u, 0x64086408u, f16());
    } else {
      out[j] = minus_pairs(__byte_perm(words[j / 2] ^ 0x80808080u, 0x64646464u, j % 2 ? 0x4342u : 0x4140u), 0x64806480u, f16());
    }
  }
}
template <int Bits>
__device__ __forceinline__ void unpack_numbers(u32* out, const u32* words, bf16) {
  // After the bits of 128 seven bits are exact. The sign's bit makes 256 of 128.
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (Bits == 4) {
      out[j] = minus_pairs(((words[0] >> 4 * j) & 0x000f000fu) | 0x43004300u, 0x43084308u, bf16());
    } else {
      const u32 pair = __byte_perm(words[j / 2], 0x43434343u, j % 2 ? 0x4342u : 0x4140u);
      out[j] = minus_pairs(pair & 0xff7fff7fu, pair & 0xff80ff80u, bf16());
    }
  }
}
// A lane's part of a chunk: two columns, eight numbers of each 32.
template <int Bits, int Group, int ScaleBytes, bool Zero>
struct PackedChunk {
  static constexpr int groups = Group == 0 ? 1 : 128 / Group, words = 2 * Bits, words_of_scale = Group == 0 ? 0 : groups * 2 * ScaleBytes / 4, bytes_of_zero = Zero ? 2 * groups : 0;
  static constexpr int before = 8 * (4 * words_of_scale + bytes_of_zero), bytes = before + 256 * Bits;
  u32 number[words], scale[words_of_scale == 0 ? 1 : words_of_scale];
  alignas(8) i8 zero[bytes_of_zero == 0 ? 1 : bytes_of_zero];

  __device__ __forceinline__ void load(const char* from) {
    const int lane = threadIdx.x % 32, column = lane / 4;
    if constexpr (words_of_scale > 0) read_constant<words_of_scale>(scale, (const u32*)from + column * words_of_scale);
    if constexpr (Zero) read_constant<bytes_of_zero>(zero, (const i8*)from + 32 * words_of_scale + column * bytes_of_zero);
#pragma unroll
    for (int u = 0; u < words / 4; ++u) {
      const uint4 four = streamed(from + before + (u * 32 + lane) * 16);
      number[4 * u] = four.x, number[4 * u + 1] = four.y, number[4 * u + 2] = four.z, number[4 * u + 3] = four.w;
    }
  }
  // The scale of a group in the first column, or in the one eight behind it.
  __device__ __forceinline__ f32 scale_of(int group, int second) const {
    if (ScaleBytes == 4) return __uint_as_float(scale[(2 * group + second) % (words_of_scale == 0 ? 1 : words_of_scale)]);
    const u32 both = scale[group % (words_of_scale == 0 ? 1 : words_of_scale)];
    return __uint_as_float(second ? both & 0xffff0000u : both << 16);
  }
  // Numbers of 16 of K, without their zeros: `four` is 0 or 1 of the 32 that are block 0 .. 3.
  template <class E>
  __device__ __forceinline__ void numbers(u32* out, int block, int four) const {
    unpack_numbers<Bits>(out, number + (block * 2 + four) * Bits / 4, E());
    if constexpr (Zero) {
      const int group = block * 32 / Group;
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        alignas(4) E both[2];
        put2(both, (f32)zero[2 * group + second], (f32)zero[2 * group + second]);
        const u32 pair = *(const u32*)both;
        out[second] = minus_pairs(out[second], pair, E());
        out[2 + second] = minus_pairs(out[2 + second], pair, E());
      }
    }
  }
  // Adds the products of these numbers. `rows`: where the lane's row of A in each tile has its first eight of the chunk.
  template <int Tiles, class E>
  __device__ __forceinline__ void multiply_rows_of_a(f32 (&sums)[Tiles][4], const E* const (&rows)[Tiles]) const {
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      f32 own[Tiles][4];
#pragma unroll
      for (int t = 0; t < Tiles; ++t) {
#pragma unroll
        for (int e = 0; e < 4; ++e) own[t][e] = 0.0f;
      }
#pragma unroll
      for (int b = g * 4 / groups; b < (g + 1) * 4 / groups; ++b) {
        uint4 x[Tiles];
#pragma unroll
        for (int t = 0; t < Tiles; ++t) x[t] = *(const uint4*)(rows[t] + b * 32);
#pragma unroll
        for (int four = 0; four < 2; ++four) {
          u32 w[4];
          numbers<E>(w, b, four);
#pragma unroll
          for (int t = 0; t < Tiles; ++t) {
            const u32 y[2] = {four ? x[t].z : x[t].x, four ? x[t].w : x[t].y};
            multiply(Group == 0 ? sums[t] : own[t], w, y, E());
          }
        }
      }
#pragma unroll
      for (int t = 0; Group != 0 && t < Tiles; ++t) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[t][e] = fmaf(own[t][e], scale_of(g, e / 2), sums[t][e]);
      }
    }
  }
};
// A block takes a panel of 16 columns at a time, and its warps take chunks of K in turn; `Ahead` of them are loaded while others are multiplied, also those of the next panel. The rows of A stay in shared
// memory. With a gated epilogue, a panel of the first half is followed by the same one of the second.
template <class H, int Bits, int Group, int ScaleBytes, bool Zero, int Tiles, int Ahead, bool Aligned, bool Constant, class Finish, class Row = RowInMemory>
__device__ __forceinline__ void gemm_by_packed(const PackedParameters& p, Finish finish, Row row = Row()) {
  typedef PackedChunk<Bits, Group, ScaleBytes, Zero> Chunk;
  typedef typename RowsOfPacked<H>::Number E;
  constexpr int parts = RowsOfPacked<H>::parts, threads = gemv_threads, warps = threads / 32, halves = Finish::halves, of_warp = Tiles * 8 * 16;
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  f32* const shared = (f32*)tiles_of_block;  // [2][halves][warps][rows][16 columns]
  E* const own = (E*)(shared + 2 * halves * warps * of_warp);  // [rows][parts][pitch]
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, all_of_k = (int)p.size.k, padded = p.chunks * 128, pitch = padded + 32;
  const int row_block = (int)blockIdx.x % p.row_blocks, step = (int)gridDim.x / p.row_blocks, first_row = row_block * p.rows;
  const int rows = p.size.m - first_row < p.rows ? (int)p.size.m - first_row : p.rows;
  const int panels = (int)((p.size.n + 15) / 16), turns = (p.chunks + warps * Ahead - 1) / (warps * Ahead);
  int panel = (int)blockIdx.x / p.row_blocks, turn = 0, half = 0;  // of what is loaded next
  auto chunk_at = [&](int c) { return (turn * Ahead + c) * warps + warp; };
  auto place_of = [&](int chunk) { return (const char*)p.matrices.b + ((i64)(half * panels + panel) * p.chunks + chunk) * Chunk::bytes; };
  Chunk next[Ahead];
  auto load = [&](int c) {
    const int chunk = chunk_at(c);
    if (panel < panels && chunk < p.chunks) next[c].load(place_of(chunk));
  };
  auto go_on = [&] {
    if (++turn < turns) return;
    turn = 0;
    if (++half < halves) return;
    half = 0;
    panel += step;
    if (panel >= panels) let_next_start();  // all loads of B are issued
  };
  if (!Constant) wait_for_others();
  if (!Row::made) {
#pragma unroll
    for (int c = 0; c < Ahead; ++c) load(c);
  } else if (lane < Ahead && panel < panels && chunk_at(lane) < p.chunks) {
    prefetch_to_l2(place_of(chunk_at(lane)), Chunk::bytes);
  }
  if (Constant) wait_for_others();
  if constexpr (Row::made) row(own);
  for (int r = 0; r < rows; ++r) {
    E* const to = own + r * parts * pitch;
    const H* a = (const H*)p.matrices.a + p.matrices.base;
#pragma unroll
    for (int i = 3, rest = first_row + r; !Row::made && i >= 0; --i) {
      a += rest % p.m_extent[i] * p.m_step[i];
      rest /= p.m_extent[i];
    }
    for (int k = (Row::made ? all_of_k : 0) + threadIdx.x * 8; k < padded; k += threads * 8) {
      const bool there = k < all_of_k;
      if constexpr (Aligned && !Row::made && sizeof(H) == 2) {
        copy_async_or_zero(shared_address(to + k), there ? a + k : a, there ? 16u : 0u);
      } else {
        alignas(16) H eight[8] = {};
        if (!Row::made && there) load_neighbours<Aligned>(eight, a + k);
        RowsOfPacked<H>::put_eight(to + k, pitch, eight);
      }
    }
  }
  commit_copies();
  wait_copies<0>();
  __syncthreads();
  if (Row::made) {
#pragma unroll
    for (int c = 0; c < Ahead; ++c) load(c);
  }
  go_on();
  // Behind the last row lanes multiply it again, and nobody reads their sums.
  const E* of_tiles[Tiles];
#pragma unroll
  for (int t = 0; t < Tiles; ++t) {
    const int r = t * 8 + lane / 4;
    of_tiles[t] = own + (r < rows * parts ? r : rows * parts - 1) * pitch + lane % 4 * 8;
  }
  int side = 0;
  for (int mine = (int)blockIdx.x / p.row_blocks; mine < panels; mine += step) {
    const i64 column = mine * 16 + threadIdx.x % 2 * 8;
    const int of_thread = threadIdx.x / 2;  // row
    const bool finishes = of_thread < rows && column < p.size.n;
    typename Finish::Held held;
    if (finishes) finish.load(held, first_row + of_thread, column);
    f32* const all = shared + side * halves * warps * of_warp;
#pragma unroll 1
    for (int h = 0; h < halves; ++h) {
      f32 sums[Tiles][4];
#pragma unroll
      for (int t = 0; t < Tiles; ++t) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[t][e] = 0.0f;
      }
#pragma unroll 1
      for (int k = 0; k < turns; ++k) {
#pragma unroll
        for (int c = 0; c < Ahead; ++c) {
          const int chunk = (k * Ahead + c) * warps + warp;
          const Chunk now = next[c];
          load(c);
          const E* from[Tiles];
#pragma unroll
          for (int t = 0; t < Tiles; ++t) from[t] = of_tiles[t] + chunk * 128;
          if (chunk < p.chunks) now.template multiply_rows_of_a<Tiles, E>(sums, from);
        }
        go_on();
      }
      f32* const to = all + (h * warps + warp) * of_warp + lane % 4 * 2 * 16 + lane / 4;
#pragma unroll
      for (int t = 0; t < Tiles; ++t) {
#pragma unroll
        for (int e = 0; e < 4; ++e) to[(t * 8 + e % 2) * 16 + e / 2 * 8] = sums[t][e];
      }
    }
    __syncthreads();
    if (finishes) {
      f32 sums[8 * halves];
#pragma unroll
      for (int c = 0; c < 8 * halves; c += 4) {
        float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int w = 0; w < warps; ++w) {
#pragma unroll
          for (int part = 0; part < parts; ++part) {
            const float4 more = *(const float4*)(all + (c / 8 * warps + w) * of_warp + (of_thread * parts + part) * 16 + threadIdx.x % 2 * 8 + c % 8);
            four.x += more.x, four.y += more.y, four.z += more.z, four.w += more.w;
          }
        }
        sums[c] = four.x, sums[c + 1] = four.y, sums[c + 2] = four.z, sums[c + 3] = four.w;
      }
      finish(first_row + of_thread, column, sums, held, true);
    }
    side ^= 1;
  }
}
// B as a matrix [N, K] of A's half type, a chunk for each warp.
template <class H, int Bits, int Group, int ScaleBytes, bool Zero, class Finish>
__device__ __forceinline__ void decode_packed(const PackedDecodeParameters& p, Finish) {
  after_others();
  constexpr int warps = gemv_threads / 32;
  typedef PackedChunk<Bits, Group, ScaleBytes, Zero> Chunk;
  const i64 id = (i64)blockIdx.x * warps + threadIdx.x / 32, panel = id / p.chunks;
  if (panel * 16 >= p.n) return;
  const int lane = threadIdx.x % 32;
  const i64 first = id % p.chunks * 128 + lane % 4 * 8;
  Chunk now;
  now.load((const char*)p.matrices.b + id * Chunk::bytes);
#pragma unroll
  for (int b = 0; b < 4; ++b) {
    u32 w[8];
    now.template numbers<H>(w, b, 0);
    now.template numbers<H>(w + 4, b, 1);
#pragma unroll
    for (int second = 0; second < 2; ++second) {
      const i64 column = panel * 16 + lane / 4 + second * 8, k = first + b * 32;
      alignas(16) H eight[8];
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        const H* const two = (const H*)(w + 2 * pair + second);
        const f32 scale = Group == 0 ? 1.0f : now.scale_of(b * Chunk::groups / 4, second);
        put2(eight + 2 * pair, value(two[0]) * scale, value(two[1]) * scale);
      }
      if (column < p.n && k < p.k) write<8>((H*)p.out + column * p.k + k, eight);
    }
  }
}
