// "gemm_tiles": tiles of Hopper's groups of warps, which its copying unit (TMA) fills.
#pragma once
#include <algorithm>
#include <iterator>
#include <span>

#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "backend/cuda/kernels/gemm/tiles/run/tuning.h"
#include "backend/cuda/run/hardware.h"

namespace ingot::kernels {

// Groups of four warps multiply 64 rows each, or alternate on tiles of their own (`ping_pong`); one more warp copies tiles.
struct LargeTile {
  int rows, columns, stages, blocks;  // blocks: per multiprocessor
  gemm::tiles_tuning::OfTile times;
  int ping_pong = 0;  // number of alternating groups, each with its own tile of results; 0: results replace a stage
  int cluster = 1;  // blocks with the same columns, of which each copies a share of B to all
  constexpr int threads() const { return (ping_pong > 0 ? ping_pong * 128 : rows * 2) + 32; }
  // Bytes: the tiles, two barriers per stage, two per alternating group, and each group's column operands. `element`: bytes of a result in boxes.
  constexpr int shared(int column_bytes, int element) const {
    const int groups = ping_pong > 0 ? ping_pong : rows / 64;
    return shared_of(stages_with(element), element) + groups * columns * column_bytes;
  }
  // Fewer than `stages` where alternating groups' results are floats, which take twice the room.
  constexpr int stages_with(int element) const;
  constexpr int shared_of(int count, int element) const { return count * gemm_stage_bytes(rows, columns) + ping_pong * rows * columns * element + 16 * (count + ping_pong); }
  // Blocks that compute a result of m x n, without the parts of K.
  constexpr int64_t grid(int64_t m, int64_t n, bool gated) const {
    const int64_t high = int64_t{rows} * cluster, wide = results(gated);
    return (m + high - 1) / high * cluster * ((n + wide - 1) / wide);
  }
  // Columns of the result: half of them if the epilogue is gated.
  constexpr int results(bool gated) const { return gated ? columns / 2 : columns; }
  // A tile whose columns of the result are not a multiple of 64 is only for results of whole tiles. Some have no room for floats.
  constexpr bool takes(int64_t n, bool gated, bool of_floats) const { return (results(gated) % 64 == 0 || n % results(gated) == 0) && !(of_floats && times.floats.step == 0); }
};
inline constexpr LargeTile large_tiles[] = {{128, 128, 5, 1, gemm::tiles_tuning::times[0], 2}, {128, 128, 3, 2, gemm::tiles_tuning::times[1]},
                                            {128, 64, 4, 2, gemm::tiles_tuning::times[2]},     {64, 64, 6, 2, gemm::tiles_tuning::times[3]},
                                            {128, 64, 5, 1, gemm::tiles_tuning::times[4], 3},  {128, 160, 5, 1, gemm::tiles_tuning::times[5], 0, 2},
                                            {128, 192, 5, 1, gemm::tiles_tuning::times[6]},    {128, 256, 4, 1, gemm::tiles_tuning::times[7]}};
static_assert(std::size(large_tiles) == std::size(gemm::tiles_tuning::times));
inline constexpr int large_tile_shared = backend::cuda::hardware::hopper_shared_of_block;
constexpr int LargeTile::stages_with(int element) const {
  int count = stages;
  while (shared_of(count, element) > large_tile_shared) --count;
  return count;
}

// True if no part of B begins inside a tile. `first`: of each part, its first column. n: columns of the result; with a gated epilogue B has twice as many.
inline bool fits_parts(const LargeTile& t, std::span<const int64_t> first, int64_t n, bool gated) {
  return std::all_of(first.begin(), first.end(), [&](int64_t f) { return f % n % t.results(gated) == 0; });
}

struct TilesArgs {
  static constexpr uint16_t all_tiles = UINT16_MAX;
  static constexpr uint8_t none = UINT8_MAX;
  uint16_t tiles = all_tiles;  // bit k: the plan has code for large tile k
  uint8_t column_bytes = 0;    // bytes per column of operands that are constant over rows; they are loaded before the kernel multiplies
  uint8_t boxed_in = none, boxed_out = none;  // operands of the epilogue of A's size that the copying unit moves: one load, one store

  // Of an element of results in TMA boxes.
  int boxed_bytes(ir::DType type) const { return boxed_in == none && boxed_out == none ? 2 : static_cast<int>(ir::size_of(type)); }
};
std::vector<std::byte> serialise(const TilesArgs&);
// Error (format).
TilesArgs parse_tiles_args(std::span<const std::byte>, const GemmArgs&);

}  // namespace ingot::kernels
