// Products of experts: rows of A, which lie in the order of their experts, times the matrix of their expert. A block has a tile of one expert's rows; which one it finds from the ends of the
// rows. There are blocks for the most tiles that so many rows can have; the last ones may have nothing to do.
struct RaggedPlace {
  int expert;      // `count` for the rows after the last end, whose sums are 0
  int m0, m_end, tile_n;
};
// A tile of expert e comes before those of e + 1; of an expert, tiles of the same columns are neighbours, so that they read its matrix together.
template <int BM>
__device__ __forceinline__ RaggedPlace find_rows(const Experts& experts, int rows, int tiles_n) {
  const int lane = threadIdx.x % 32;
  auto end_of = [&](int e) {
    if (e >= experts.count) return (i64)rows;
    return experts.bytes == 4 ? (i64)((const int*)experts.ends)[e] : ((const i64*)experts.ends)[e];
  };
  int before = 0, last = 0;
  i64 next = end_of(lane);
  for (int first = 0; first <= experts.count; first += 32) {
    const int e = first + lane;
    const i64 end = next;
    next = end_of(e + 32);
    const int own_end = end < 0 ? 0 : end > rows ? rows : (int)end, neighbour = __shfl_up_sync(0xffffffffu, own_end, 1), begin = lane == 0 ? last : neighbour;
    const int own = own_end > begin && e <= experts.count ? (own_end - begin + BM - 1) / BM * tiles_n : 0;
    int sum = own;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const int left = __shfl_up_sync(0xffffffffu, sum, (u32)by);
      sum += lane >= by ? left : 0;
    }
    const u32 found = __ballot_sync(0xffffffffu, (int)blockIdx.x < before + sum);
    if (found != 0) {
      const u32 at = (u32)__ffs((int)found) - 1;
      const int in_expert = (int)blockIdx.x - before - __shfl_sync(0xffffffffu, sum - own, at), m0 = __shfl_sync(0xffffffffu, begin, at), m_end = __shfl_sync(0xffffffffu, own_end, at);
      const int tiles_m = (m_end - m0 + BM - 1) / BM;
      return {first + (int)at, m0 + in_expert % tiles_m * BM, m_end, in_expert / tiles_m};
    }
    before += __shfl_sync(0xffffffffu, sum, 31);
    last = __shfl_sync(0xffffffffu, own_end, 31);
  }
  return {0, 0, 0, 0};
}
// WM, WN: see CopiedTiles.
template <class H, int BM, int BN, int WM, int WN, int Stages, bool AlongK, bool Aligned, class Finish>
__device__ __forceinline__ void ragged_gemm(const RaggedParameters& p, Finish finish, const Experts& experts) {
  constexpr int halves = Finish::halves;
  using Tiles = CopiedTiles<H, BM, BN, WM, WN, Stages, halves, AlongK>;
  constexpr int each = Tiles::each, depth = Tiles::depth, columns = Tiles::columns;
  static_assert(halves == 1 || AlongK, "gated columns");
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  after_others();
  const RaggedPlace at = find_rows<BM>(experts, (int)p.size.m, (int)((p.size.n + columns - 1) / columns));
  if (at.m0 >= at.m_end) return;
  const i64 n0 = (i64)at.tile_n * columns;
  const int turns = at.expert < experts.count ? (int)((p.size.k + depth - 1) / depth) : 0;
  const int my_row = threadIdx.x / Tiles::vectors, my_vector = threadIdx.x % Tiles::vectors, b_row = threadIdx.x / Tiles::b_vectors, b_vector = threadIdx.x % Tiles::b_vectors;
  const H* const a_from = (const H*)p.matrices.a + p.matrices.base + (i64)(at.m0 + my_row) * p.a_step + my_vector * each;
  const H* const b_from = (const H*)p.matrices.b + at.expert * experts.stride;
  auto copy = [&](H* to, const H* from, i64 count) {
    if (Aligned) {
      copy_async_or_zero(shared_address(to), count > 0 ? from : (const H*)p.matrices.b, count > 0 ? 16u : 0u);
    } else {
      copy_some_async(to, count > 0 ? from : (const H*)p.matrices.b, count < 0 ? 0 : count < each ? (int)count : each);
    }
  };
  typename Tiles::Sums sums;
  Tiles::template multiply_all<!Aligned>(sums, tiles_of_block, turns, [&](H* to_a, H* to_b, int turn) {
    const i64 k0 = (i64)turn * depth;
#pragma unroll
    for (int r = 0; r < Tiles::rows; ++r) {
      const int row = my_row + r * Tiles::row_step;
      copy(to_a + vector_offset<H>(row, my_vector), a_from + (i64)(r * Tiles::row_step) * p.a_step + k0, at.m0 + row < at.m_end ? p.size.k - k0 - my_vector * each : 0);
    }
#pragma unroll
    for (int r = 0; r < Tiles::b_rows; ++r) {
      const int row = b_row + r * Tiles::b_step;
      H* const to = to_b + Tiles::b_vector_offset(row, b_vector);
      if (AlongK) {
        const i64 k = k0 + b_vector * each, n = n0 + (halves == 1 ? row : row % columns), of_half = halves == 1 ? 0 : row / columns * p.size.n;
        copy(to, b_from + k + (n + of_half) * p.matrices.b_step, n < p.size.n ? p.size.k - k : 0);
      } else {
        const i64 k = k0 + row, n = n0 + b_vector * each;
        copy(to, b_from + k * p.matrices.b_step + n, k < p.size.k ? p.size.n - n : 0);
      }
    }
  });
  finish_rows(finish, sums, at.m0 + Tiles::first_row(), at.m_end, n0 + Tiles::first_column(), p.size.n);
}
