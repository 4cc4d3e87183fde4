template <int C, int D, int H, int W, int... Numbers> struct Im2col3dOf { static constexpr Im2col3d numbers() { return {C, {D, H, W}, Numbers...}; } };
// A convolution of volumes of stride 1 with few channels (INGOT_CUDA_IM2COL_3D). A warp multiplies some lines of sixteen places: what it loads of a line of A is multiplied for all of these lines that see it.
template <class H, class Shape, bool AlongK, bool Constant, class Finish>
__device__ __forceinline__ void gemm_by_im2col_3d(const Im2col3dParameters& p, Finish finish) {
  constexpr Im2col3d s = Shape::numbers();
  constexpr int each = s.each(), per = s.per(), vectors = s.vectors(), steps = s.steps(), wide = s.wide, threads = s.threads(), lines = s.lines, deep = s.deep, down = s.down(),
                across = s.across, kd = s.kernel[0], kh = s.kernel[1], words = s.weights(), channels = s.channels, of_line = s.of_line(), line_places = s.line(), plane = s.plane(),
                places = s.places(), pitch = s.pitch(), patch = s.patch();
  constexpr bool narrow = s.narrow();
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  u32* const weights = (u32*)tiles_of_block;
  H* const patches = (H*)(weights + words);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quarter = lane % 4;
  const int sides = (int)((p.size.n + 16 * wide - 1) / (16 * wide)), n0 = blockIdx.x % sides * 16 * wide;
  const int tiles_x = (p.extent[3] + across - 1) / across, tiles_y = (p.extent[2] + down - 1) / down, tiles_z = (p.extent[1] + deep - 1) / deep;
  const int tiles = p.extent[0] * tiles_z * tiles_y * tiles_x;
  int z0 = 0, y0 = 0, x0 = 0, image = 0;
  auto locate = [&](int tile) {
    int rest = tile / tiles_x;
    x0 = tile % tiles_x * across;
    y0 = rest % tiles_y * down;
    rest /= tiles_y;
    z0 = rest % tiles_z * deep;
    image = rest / tiles_z;
  };
  auto copy_patch = [&](int tile, H* to) {
    if (tile < tiles) {
      locate(tile);
      const H* const from = (const H*)p.matrices.a + p.matrices.base + (i64)image * p.step[0];
#pragma unroll 4
      for (int i = threadIdx.x; i < places * vectors; i += threads) {
        const int place = i / vectors, vector = i % vectors, z = z0 + p.origin[0] + place / plane, y = y0 + p.origin[1] + place % plane / line_places,
                  x = x0 + p.origin[2] + place % line_places;
        const bool there = ((u32)z < (u32)p.inside[0]) & ((u32)y < (u32)p.inside[1]) & ((u32)x < (u32)p.inside[2]);
        const H* const at = from + (i64)z * p.step[1] + (i64)y * p.step[2] + (i64)x * p.step[3];
        H* const into = to + (vector * pitch + place) * each;
        if constexpr (narrow) {
          alignas(16) H own[each];
#pragma unroll
          for (int e = 0; e < each; ++e) {
            const bool one = there & (vector * each + e < channels);
            own[e] = H{};
            if (vector * each + e < channels) own[e] = *(one ? at + (vector * each + e) * p.channel_step : (const H*)p.matrices.a);
            if (!one) own[e] = H{};
          }
          write<each>(into, own);
        } else {
          copy_async_or_zero(shared_address(into), there ? at + vector * each : (const H*)p.matrices.a, there ? 16u : 0u);
        }
      }
    }
    commit_copies();
  };
  if (!Constant) after_others();
  // Columns are permuted among the fragments of B, so that each lane gets four adjacent columns of the result.
  const int b_step = (int)p.matrices.b_step;
#pragma unroll 8
  for (int i = threadIdx.x; i < words; i += threads) {
    const int of = i / 4 % 32, fragment = i / 2 % 2, half = i % 2, j = i / 128 % wide, step = i / 128 / wide % steps, tap = i / 128 / wide / steps;
    const int q = step * 2 + half, column = n0 + j * 16 + of / 8 * 4 + fragment * 2 + of / 4 % 2;
    u32 word = 0;
#pragma unroll
    for (int e = 0; e < per; ++e) {
      const int channel = q % vectors * each + of % 4 * per + e;
      const bool there = (q < of_line) & (channel < channels) & (column < (int)p.size.n);
      const int k = there ? s.k(tap / kh, tap % kh, q / vectors, channel) : 0, n = there ? column : 0;
      const u32 bits = bits_of_element(((const H*)p.matrices.b)[AlongK ? k + (i64)n * b_step : (i64)k * b_step + n]);
      word |= (there ? bits : 0u) << 16 * e;
    }
    weights[i] = word;
  }
  if (Constant) after_others();
  const int stride = gridDim.x / sides;
  int tile = blockIdx.x / sides, side = 0;
  copy_patch(tile, patches);
  const int upper = lane & 1, own_column = quarter / 2 * 8;
  typename Finish::template SameOf<EightOfRow> same[wide];
#pragma unroll
  for (int j = 0; j < wide; ++j) {
    const int column = n0 + j * 16 + own_column;
    finish.columns(same[j], EightOfRow{0, column < p.size.n ? column : (int)p.size.n - 8, true});
  }
  const int own_z = warp / s.high, own_y = warp % s.high * lines;
  for (; tile < tiles; tile += stride, side ^= 1) {
    wait_copies<0>();
    __syncthreads();
    copy_patch(tile + stride, patches + (side ^ 1) * patch);
    locate(tile);
    const int z = z0 + own_z;
    if (z >= p.extent[1] || y0 + own_y >= p.extent[2]) continue;
    f32 sums[lines][wide][2][4];
#pragma unroll
    for (int e = 0; e < lines * wide * 8; ++e) sums[e / (wide * 8)][e / 8 % wide][e / 4 % 2][e % 4] = 0.0f;
    u32 from = shared_address(patches + side * patch) + ((own_z * (down + kh - 1) + own_y) * line_places + lane % 16) * 16;
    const u32* b_at = weights + lane * 4;
#pragma unroll 1
    for (int d = 0; d < kd; ++d, from += plane * 16) {
#pragma unroll
      for (int step = 0; step < steps; ++step, b_at += wide * 128) {
        u32 b[kh][wide][4];
#pragma unroll
        for (int h = 0; h < kh; ++h) {
#pragma unroll
          for (int j = 0; j < wide; ++j) read<4>(b[h][j], b_at + (h * steps * wide + j) * 128);
        }
        // The last step of a line may have one vector alone.
        const bool alone = step * 2 + 1 == of_line;
        const int first = step * 2, second = alone ? first : first + 1;
        const u32 at = from + (lane < 16 ? first % vectors * pitch + first / vectors : second % vectors * pitch + second / vectors) * 16;
#pragma unroll
        for (int y = 0; y < lines + kh - 1; ++y) {
          u32 a[4];
          four_matrices(a, at + y * line_places * 16);
          if (alone) a[2] = a[3] = 0;
          round_fragment(a, H());
#pragma unroll
          for (int h = 0; h < kh; ++h) {
            if (y < h || y - h >= lines) continue;
#pragma unroll
            for (int j = 0; j < wide; ++j) {
              multiply(sums[y - h][j][0], a, b[h][j], H());
              multiply(sums[y - h][j][1], a, b[h][j] + 2, H());
            }
          }
        }
      }
      b_at += (kh - 1) * steps * wide * 128;
    }
#pragma unroll
    for (int l = 0; l < lines; ++l) {
      const int y = y0 + own_y + l, x = x0 + group + upper * 8;
      if (y >= p.extent[2]) break;
      const i64 first = (((i64)image * p.extent[1] + z) * p.extent[2] + y) * p.extent[3];
#pragma unroll
      for (int j = 0; j < wide; ++j) {
        // Lane pairs exchange: the even one gets all eight columns of the upper row, the odd one of the lower row.
        f32 eight[8];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const f32 top = sums[l][j][e / 2][e % 2], bottom = sums[l][j][e / 2][2 + e % 2];
          const f32 other = __shfl_xor_sync(0xffffffffu, upper ? top : bottom, 1);
          eight[e] = upper ? other : top;
          eight[4 + e] = upper ? bottom : other;
        }
        // Outputs outside repeat the last one inside, and are not stored.
        const int column = n0 + j * 16 + own_column;
        const EightOfRow at = {first + (x < p.extent[3] ? x : p.extent[3] - 1), column < p.size.n ? column : (int)p.size.n - 8, x < p.extent[3] && column < p.size.n};
        typename Finish::Held held;
        finish.rows(held, at, 0);
        finish.behind(at, eight, same[j], held, 0);
      }
    }
  }
}
