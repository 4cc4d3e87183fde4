#ifdef INGOT_WARPGROUPS
// Products of experts: groups of four warps multiply 64 rows of a tile of one expert's rows each, and one more warp copies boxes of A and of the expert's matrix for them. Rows of the next
// expert may be copied after those of the tile; their sums go nowhere.
template <class H, int BM, int BN, int Stages, bool AlongK, class Finish>
__device__ __forceinline__ void ragged_gemm_by_tiles(const RaggedTilesParameters& p, Finish finish, const Experts& experts) {
  constexpr int depth = gemm_row_bytes / (int)sizeof(H), groups = BM / 64, box = 64 * 128, a_bytes = BM * gemm_row_bytes, bytes = gemm_stage_bytes(BM, BN);
  // Columns of the result. Gated: B's tile is these columns of its first half, then of its second.
  constexpr int halves = Finish::halves, columns = BN / halves;
  static_assert((halves == 1 && sizeof(H) == 2) || AlongK, "the instruction turns tiles of halves alone");
  extern __shared__ __align__(1024) uint4 tiles_of_block[];
  const u32 tiles = shared_address(tiles_of_block), full = tiles + Stages * bytes, empty = full + Stages * 8;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < Stages; ++s) {
      make_barrier(full + s * 8, 1);
      make_barrier(empty + s * 8, groups);
    }
    show_barriers();
  }
  __syncthreads();
  after_others();
  const RaggedPlace at = find_rows<BM>(experts, (int)p.size.m, (int)((p.size.n + columns - 1) / columns));
  if (at.m0 >= at.m_end) return;
  const int n0 = at.tile_n * columns, turns = at.expert < experts.count ? p.chunks : 0;
  if (warp == groups * 4) {
    if (lane != 0) return;
    fetch_map(p.a_tiles);
    fetch_map(p.b_tiles);
    int stage = 0;
    u32 parity = 1;
    for (int turn = 0; turn < turns; ++turn) {
      const u32 to = tiles + stage * bytes, barrier = full + stage * 8;
      wait_barrier(empty + stage * 8, parity);
      arrive_with(barrier, bytes);
      copy_box_async(to, p.a_tiles, barrier, turn * depth, 0, at.m0);
      if (AlongK) {
#pragma unroll
        for (int h = 0; h < halves; ++h) copy_box_async(to + a_bytes + h * columns * gemm_row_bytes, p.b_tiles, barrier, turn * depth, at.expert, n0 + h * (int)p.size.n);
      } else {
#pragma unroll
        for (int j = 0; j < BN / 64; ++j) copy_box_async(to + a_bytes + j * box, p.b_tiles, barrier, n0 + j * 64, turn * depth, at.expert);
      }
      if (++stage == Stages) stage = 0, parity ^= 1;
    }
    return;
  }
  const int group = warp / 4;
  f32 sums[1][BN / 8][4];
#pragma unroll
  for (int j = 0; j < BN / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[0][j][e] = 0.0f;
  }
  begin_multiplying<BN / 2>(sums[0][0]);
  int stage = 0, before = 0;
  u32 parity = 0;
  for (int turn = 0; turn < turns; ++turn) {
    wait_barrier(full + stage * 8, parity);
    go_on_multiplying();
    const u64 a = tile_of(tiles + stage * bytes + group * box, 0), b = tile_of(tiles + stage * bytes + a_bytes, box);
#pragma unroll
    for (int k = 0; k < gemm_row_bytes / 32; ++k) multiply_tiles<BN, AlongK>(sums[0][0], a + k * 2, b + k * (AlongK ? 2 : 128), H(), true);
    multiplying();
    // The previous turn is done with its tiles.
    leave_multiplying<1>();
    if (turn > 0 && threadIdx.x % 128 == 0) arrive(empty + before * 8);
    before = stage;
    if (++stage == Stages) stage = 0, parity ^= 1;
  }
  wait_multiplied<BN / 2>(sums[0][0]);
  finish_rows(finish, sums, at.m0 + warp * 16, at.m_end, n0, p.size.n);
}
#else
// Never launched on GPUs without these instructions.
template <class H, int BM, int BN, int Stages, bool AlongK, class Finish>
__device__ void ragged_gemm_by_tiles(const RaggedTilesParameters&, Finish, const Experts&) {}
#endif
