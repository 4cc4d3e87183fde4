#include "backend/cuda/kernels/gemm/run/through_map.h"

#include <algorithm>

#include "backend/cuda/kernels/gemm/implicit/run/parameters.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"

namespace ingot::kernels {

CudaLaunches through_map(const GemmCall& c, Access access) {
  const GemmArgs& args = c.args;
  const bool vectors = access == Access::vectors;
  GemmLaunches out(c, access == Access::elements ? "any_" : "");
  if (c.is_empty()) return std::move(out.list);
  const int64_t halves = args.gated ? 2 : 1, multiprocessors = c.machine.multiprocessors;
  auto blocks_of = [&](const WarpTile& t) { return divided_up(c.size.m, t.rows) * divided_up(halves * c.size.n, t.columns); };
  // Large tiles read less; small ones use more multiprocessors and waste less on a narrow result. K is split if there are still too few blocks.
  const int size = vectors && halves * c.size.n > warp_tiles[1].columns && blocks_of(warp_tiles[0]) >= multiprocessors ? 0 : 1;
  const WarpTile& tile = warp_tiles[size];
  const int64_t turns = divided_up(c.size.k, depth_of(args)), blocks = blocks_of(tile);
  // Blocks that copy elements one by one wait for them: four share a multiprocessor, where two do that copy vectors.
  const int64_t filled = multiprocessors * (vectors ? 2 : 4), wanted = args.gated || (vectors ? 4 : 2) * blocks > filled ? 1 : filled / blocks;
  const GemmShares shares = out.share_k(turns, std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, turns / gemm::tuning::min_steps_of_warps)));
  out.add((access == Access::vectors_but_a ? "one_" : "") + std::to_string(size), ImplicitParameters{c.size, c.matrices, shares, c.walk}, blocks * shares.splits, tile.threads,
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
