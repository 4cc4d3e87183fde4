#include "backend/cuda/kernels/gemm/run/through_map.h"

#include <algorithm>

#include "backend/cuda/kernels/gemm/implicit/run/parameters.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"

namespace ingot::kernels {

WarpShares warp_shares(int64_t rows, int64_t columns, int64_t turns, int multiprocessors, bool vectors, bool alone) {
  auto blocks_of = [&](const WarpTile& t) { return divided_up(rows, t.rows) * divided_up(columns, t.columns); };
  // Large tiles read less; small ones use more multiprocessors and waste less on a narrow result. K is split if there are still too few blocks.
  const int tile = vectors && columns > warp_tiles[1].columns && blocks_of(warp_tiles[0]) >= multiprocessors ? 0 : 1;
  const int64_t blocks = blocks_of(warp_tiles[tile]);
  // Blocks that copy elements one by one wait for them: four share a multiprocessor, where two do that copy vectors.
  const int64_t filled = int64_t{multiprocessors} * (vectors ? 2 : 4), wanted = alone || (vectors ? 4 : 2) * blocks > filled ? 1 : filled / blocks;
  return {tile, blocks, std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, turns / gemm::tuning::min_steps_of_warps))};
}

CudaLaunches through_map(const GemmCall& c, Access access) {
  const GemmArgs& args = c.args;
  const bool vectors = access == Access::vectors;
  GemmLaunches out(c, access == Access::elements ? "any_" : "");
  if (c.is_empty()) return std::move(out.list);
  const WarpShares found = warp_shares(c.size.m, (args.gated ? 2 : 1) * c.size.n, divided_up(c.size.k, depth_of(args)), c.machine.multiprocessors, vectors, args.gated);
  const WarpTile& tile = warp_tiles[found.tile];
  const GemmShares shares = out.share_k(divided_up(c.size.k, depth_of(args)), found.splits);
  out.add((access == Access::vectors_but_a ? "one_" : "") + std::to_string(found.tile), ImplicitParameters{c.size, c.matrices, shares, c.walk}, found.blocks * shares.splits, tile.threads,
          gemm_stages * gemm_row_bytes * (tile.rows + tile.columns));
  out.finish(shares);
  return std::move(out.list);
}

CudaLaunches with_any_address(CudaLaunches list, CudaLaunches any) {
  list.any = std::move(any.list);
  list.scratch = std::max(list.scratch, any.scratch);
  return list;
}

CudaLaunches with_any_address(CudaLaunches list, const GemmCall& c) { return with_any_address(std::move(list), through_map(c, Access::elements)); }

}  // namespace ingot::kernels
