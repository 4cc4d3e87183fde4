template <int... Numbers> struct Im2col2dOf { static constexpr Im2col2d numbers() { return {Numbers...}; } };
// A convolution of images with few channels (INGOT_CUDA_IM2COL_2D). A warp multiplies
// sixteen places of a line by 32 columns at a time. It keeps its part of B in registers for all patches.
template <class H, class Shape, bool AlongK, class Finish>
__device__ __forceinline__ void gemm_by_im2col_2d(const Im2col2dParameters& p, Finish finish) {
  constexpr Im2col2d s = Shape::numbers();
  constexpr int steps = s.steps(), wide = s.wide, high = s.high(), threads = s.threads(), warps = threads / 32, columns = 32 * wide, half_step = s.half_step(), words = steps * 8, per = s.per(), each = s.each();
  constexpr int pitch = s.pitch(), patch = s.patch(), vectors = s.vectors(), lines = s.lines(), height = s.height(), down = s.down, across = s.across;
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  u32* const weights = (u32*)tiles_of_block;
  H* const patches = (H*)(weights + s.weights());
  H* const aside = patches + 2 * patch;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quarter = lane % 4;
  const int sides = (int)((p.size.n + columns - 1) / columns), n0 = blockIdx.x % sides * columns;
  const int tiles_x = (p.columns + across - 1) / across, tiles_y = (p.rows + down - 1) / down, tiles = p.images * tiles_y * tiles_x;
  after_others();
  const int b_step = (int)p.matrices.b_step;
  auto at_b = [&](int k, int n) { return AlongK ? k + n * b_step : k * b_step + n; };
  int y0 = 0, x0 = 0, image = 0;
  auto locate = [&](int tile) {
    const int rest = tile / tiles_x;
    x0 = tile % tiles_x * across;
    y0 = rest % tiles_y * down;
    image = rest / tiles_y;
  };
  auto copy_patch = [&](int tile, H* to) {
    if (tile < tiles) {
      locate(tile);
      const H* const from = (const H*)p.matrices.a + (i64)image * p.image_step;
      const int top = y0 * s.stride[0] - s.pad[0], left = x0 * s.step() + s.start();
#pragma unroll
      for (int i = threadIdx.x; i < lines * vectors; i += threads) {
        const int line = i / vectors, y = top + line % height, x = left + i % vectors * each;
        const H* const at = from + line / height * p.channel_step + (i64)y * p.line_step + x;
        const bool there = (u32)y < (u32)p.lines;
        if (p.whole) {
          const bool all = there & (u32)x < (u32)p.line;
          copy_async_or_zero(shared_address(to + i * each), all ? at : (const H*)p.matrices.a, all ? 16u : 0u);
        } else {
          alignas(16) H vector[each];
#pragma unroll
          for (int e = 0; e < each; ++e) {
            const bool one = there & (u32)(x + e) < (u32)p.line;
            vector[e] = *(one ? at + e : (const H*)p.matrices.a);
            if (!one) vector[e] = H{};
          }
          write<each>(to + i * each, vector);
        }
      }
    }
    commit_copies();
  };
  const int stride = gridDim.x / sides;
  int tile = blockIdx.x / sides, side = 0;
  copy_patch(tile, patches);
  // Columns are permuted among the fragments of B, so that each lane gets eight adjacent columns of the result.
  constexpr int words_at_once = AlongK ? 32 : warps, own = AlongK ? columns / warps : wide;
  auto column_of = [&](int j) { return AlongK ? warp * own + j : j * 32 + lane; };
#pragma unroll
  for (int i = 0; i < (words + words_at_once - 1) / words_at_once; ++i) {
    const int word = i * words_at_once + (AlongK ? lane : warp);
    const u32 mask = s.mask(word);
    u32 mine[own];
#pragma unroll
    for (int j = 0; j < own; ++j) {
      // Columns outside repeat the last one; their results are not used.
      const int c = n0 + column_of(j), n = c < (int)p.size.n ? c : (int)p.size.n - 1;
      mine[j] = 0;
#pragma unroll
      for (int e = 0; e < per; ++e) {
        const int k = s.k(word, e);
        mine[j] |= bits_of_element(((const H*)p.matrices.b)[at_b(k < 0 ? 0 : k, n)]) << 16 * e;
      }
      mine[j] &= mask;
    }
#pragma unroll
    for (int j = 0; j < own; ++j) {
      const int c = column_of(j);
      if (word < words) weights[word / 4 * half_step + (c / 32 * 4 + c % 8 / 2) * 32 + (c % 32 / 8 * 2 + c % 2) * 4 + word % 4] = mine[j];
    }
  }
  __syncthreads();
  u32 b[steps][4][2];
#pragma unroll
  for (int k = 0; k < steps; ++k) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) b[k][j][half] = weights[(k * 2 + half) * half_step + (warp % wide * 4 + j) * 32 + lane];
    }
  }
  const int place = s.before() + group * s.step();
  const bool between = s.odd() & place % 2 != 0;
  const int column = n0 + warp % wide * 32 + quarter * 8, inside = column < p.size.n ? column : (int)p.size.n - 8;
  typename Finish::template SameOf<EightOfRow> same;
  finish.columns(same, EightOfRow{0, inside, true});
  for (; tile < tiles; tile += stride, side ^= 1) {
    wait_copies<0>();
    __syncthreads();
    const H* const now = patches + side * patch;
    copy_patch(tile + stride, patches + (side ^ 1) * patch);
    locate(tile);
    if constexpr (s.odd()) {
      for (int i = threadIdx.x; i < lines * pitch / 2; i += threads) ((u32*)aside)[i] = (u32)now[i * 2 + 1].bits | (u32)now[i * 2 + 2].bits << 16;
      __syncthreads();
    }
    const H* const mine = (between ? aside - 1 : now - s.lead()) + place + quarter * per;
#pragma unroll 1
    for (int line = warp / wide; line < down && y0 + line < p.rows; line += high) {
      const H* const from = mine + line * s.stride[0] * pitch;
      const int first = (image * p.rows + y0 + line) * p.columns;
      f32 sums[4][4];
#pragma unroll
      for (int e = 0; e < 16; ++e) sums[e / 4][e % 4] = 0.0f;
#pragma unroll
      for (int k = 0; k < steps; ++k) {
        u32 a[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          // The words of four lanes are adjacent, except if a run ends between them.
          const int word = k * 8 + half * 4;
          int at = s.place(word);
          u32 mask = s.mask(word);
#pragma unroll
          for (int l = 1; l < 4; ++l) {
            const int jump = s.place(word + l) - s.place(word + l - 1) - per;
            if (jump != 0) at += quarter >= l ? jump : 0;
            if (s.mask(word + l) != s.mask(word + l - 1)) mask = quarter >= l ? s.mask(word + l) : mask;
          }
          a[half * 2] = *(const u32*)(from + at) & mask;
          a[half * 2 + 1] = *(const u32*)(from + 8 * s.step() + at) & mask;
        }
        round_fragment(a, H());
#pragma unroll
        for (int j = 0; j < 4; ++j) multiply(sums[j], a, b[k][j], H());
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        f32 eight[8];
#pragma unroll
        for (int e = 0; e < 8; ++e) eight[e] = sums[e / 2][half * 2 + e % 2];
        // Outputs outside repeat the last one inside, and are not stored.
        const int x = x0 + group + half * 8, row = first + (x < p.columns ? x : p.columns - 1);
        const EightOfRow at = {row, inside, x < p.columns && column < p.size.n};
        typename Finish::Held held;
        finish.rows(held, at, 0);
        finish.behind(at, eight, same, held, 0);
      }
    }
  }
}
