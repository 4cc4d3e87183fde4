// Two to eight rows times columns that are contiguous along K: only reading B counts. As for one row, a block takes eight columns at a time, its warps take parts of each step of K, and a step is followed
// by the load of the next one. In the fragments, whose elements of K are contiguous in memory, rows g and g + 8 are both column g of B: its even and its odd words. One instruction multiplies
// the even words by their elements of A, another one the odd words, and the other half of its sums is not used.
template <class H, bool Aligned, bool Constant, class Finish>
__device__ __forceinline__ void skinny_gemm_along_k(const SkinnyParameters& p, Finish finish) {
  constexpr int warps = gemv_threads / 32, halves = Finish::halves, loads = 8, load_step = warps * 32, step = loads * load_step, of_warp = 64;
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  f32* const shared = (f32*)tiles_of_block;  // [2][halves][warps][8 rows][8 columns]
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, own = lane / 4;  // own: the lane's row of A and column of B
  const i64 groups = p.size.n / 8;
  const int first = warp * 32 + lane % 4 * 8, k_steps = (int)((p.size.k + step - 1) / step), all_of_k = (int)p.size.k;
  const bool has_row = own < p.size.m, finishes = lane == 0 && warp < p.size.m;
  const H* a = (const H*)p.matrices.a + p.matrices.base;
#pragma unroll
  for (int i = 3, rest = has_row ? own : 0; i >= 0; --i) {
    a += rest % p.m_extent[i] * p.m_step[i];
    rest /= p.m_extent[i];
  }
  auto load_vector_of_a = [&](int place) {
    uint4 out = make_uint4(0, 0, 0, 0);
    if (!has_row || place >= all_of_k) return out;
    if (Aligned) return *(const uint4*)(a + place);
#pragma unroll
    for (int e = 0; e < 8; ++e) ((H*)&out)[e] = a[place + e];
    return out;
  };
  i64 group = blockIdx.x;  // of what is loaded next
  int k_step = 0, half = 0, left;
  const H* column;
  auto begin_column = [&] {
    left = group < groups ? all_of_k - first : 0;
    column = finish.template column_of<H>(p.matrices, half * p.size.n + group * 8 + own) + first;
  };
  auto load = [&](int c) { return load_vector_of_b<Aligned>(column + c * load_step, c * load_step < left); };
  auto go_on = [&] {
    column += step;
    left -= step;
    if (++k_step < k_steps) return;
    k_step = 0;
    if (++half == halves) {
      half = 0;
      group += gridDim.x;
      if (group >= groups) let_next_start();  // all loads of B are issued
    }
    begin_column();
  };
  uint4 next[loads];
  begin_column();
  if (!Constant) wait_for_others();
#pragma unroll
  for (int c = 0; c < loads; ++c) next[c] = load(c);
  go_on();
  if (Constant) wait_for_others();
  int side = 0;
  for (i64 mine = blockIdx.x; mine < groups; mine += gridDim.x) {
    typename Finish::Held held;
    if (finishes) finish.load(held, warp, mine * 8);
    f32* const all = shared + side * halves * warps * of_warp;
#pragma unroll 1
    for (int h = 0; h < halves; ++h) {
      f32 even[2][4] = {}, odd[2][4] = {};
      for (int k = 0; k < k_steps; ++k) {
        uint4 x[loads];
#pragma unroll
        for (int c = 0; c < loads; ++c) x[c] = load_vector_of_a(k * step + first + c * load_step);
#pragma unroll
        for (int c = 0; c < loads; ++c) {
          const u32 words[4] = {next[c].x, next[c].y, next[c].z, next[c].w}, of_even[2] = {x[c].x, x[c].z}, of_odd[2] = {x[c].y, x[c].w};
          multiply(even[c % 2], words, of_even, H());
          multiply(odd[c % 2], words, of_odd, H());
          next[c] = load(c);
        }
        go_on();
      }
      f32* const to = all + (h * warps + warp) * of_warp + lane % 4 * 16 + own;
#pragma unroll
      for (int row = 0; row < 2; ++row) to[8 * row] = even[0][row] + even[1][row] + (odd[0][2 + row] + odd[1][2 + row]);
    }
    __syncthreads();
    if (finishes) {
      f32 sums[8 * halves];
#pragma unroll
      for (int c = 0; c < 8 * halves; ++c) {
        sums[c] = 0.0f;
#pragma unroll
        for (int w = 0; w < warps; ++w) sums[c] += all[(c / 8 * warps + w) * of_warp + warp * 8 + c % 8];
      }
      finish(warp, mine * 8, sums, held, true);
    }
    side ^= 1;
  }
}
