// A GEMM of half precision, or of float32 by TF32, with its epilogue, by ingot's own kernels on CUDA: the step's arguments, and the kernels' parameters.
//
// Operands: A (any tensor, read through a map), B [K, N] (contiguous along N or along K), then the body's loads and stores over [M, N] (and their gathered
// axes). Sizes: M, N, K, the extents of the map's indices (m.., k..), the offset along each axis of A (as in the CPU's "matmul" with a map), then the
// body's. N is a multiple of 8. M may be several axes of the body's operands, as the axes before the last two are of A without a map and of B, which repeats
// there. A prologue computes A, which has one row, in the kernel: its loads take A's place. With a gated epilogue B is [K, 2 N].
// With one or a few rows, B may be several operands, side by side along N.
#pragma once
#include <string>
#include <vector>

#include "backend/cuda/kernels/gemm/im2col_2d/run/im2col_2d_args.h"
#include "backend/cuda/kernels/gemm/im2col_3d/run/im2col_3d_args.h"
#include "backend/cuda/kernels/run/axes.h"
#include "backend/cuda/kernels/run/numbers_args.h"
#include "ir/dtype.h"
#include "kernels/matmul/run/matmul_args.h"

// Indices and guards from outermost to innermost; missing ones come first and have extent 1. A guard is an axis of A that the map may leave.
// The parameters described in numbers_args.h follow, then, for a few rows by several pieces of B, each one's address and first column.
#define INGOT_CUDA_GEMM \
  struct alignas(64) GemmParameters { \
    unsigned long a_tiles[16], b_tiles[16]; /* CudaTiles as the driver encodes them */ \
    unsigned long in_tiles[16], out_tiles[16]; /* of the epilogue */ \
    unsigned long a, b, parts; \
    long m, n, k, b_step; /* from a row of B to the next, or from a column */ \
    unsigned long beside[3]; /* further pieces of B, each from the column of beside_from on: one row alone */ \
    int beside_from[3]; \
    long base, m_step[4], k_step[4]; /* elements of A */ \
    int m_extent[4], k_extent[4]; \
    int k_inner; /* the innermost extent of K, rounded up to pieces of 16 bytes; k counts with it. For aligned kernels its elements are adjacent and inside A */ \
    int m_guard[3][4], k_guard[3][4], origin[3], inside[3]; \
    int splits, turns; /* of K: the number of blocks that share it, and of tiles in each */ \
    int taps, chunks;  /* K of the kernels that copy tiles: (tap, 128 bytes of k_inner) */ \
    int whole; /* patches: 1 if all lines are whole pieces at aligned addresses */ \
    int first[3], step[3], tap_step[3]; /* pixels, for w, h and d: the first position, the step to the next one, the step from tap to tap */ \
  };

namespace ingot::kernels {

INGOT_CUDA_GEMM

struct GemmArgs {
  struct Operand {
    ir::DType dtype;
    uint8_t gathered = 0;  // index axes after the domain's
  };
  std::string name;        // of the kernels
  ir::DType type;          // of A: a half type, or f32, which is multiplied by TF32
  ir::DType b_type;        // of B: the same, or int8 for an encoded weight, contiguous along K
  GemmMap map;
  bool b_along_k = false;
  static constexpr uint16_t all_tiles = UINT16_MAX;
  uint16_t tiles = all_tiles;  // bit k: the plan has code for large tile k; 0 for targets other than Hopper
  uint8_t stores = 1;
  uint8_t row_rank = 1;    // axes of the body's rows
  std::vector<uint8_t> merged;  // operands whose rows of several axes are one stride apart
  uint32_t sizes = 0;      // of the body
  std::vector<Operand> operands;  // of the body; numbers count operands and sizes from the body's first
  std::vector<CudaNumber> numbers;
  std::vector<CudaKnown> known;
  static constexpr uint8_t none = 255;
  static constexpr size_t most_column_bytes = 64;
  uint8_t column_bytes = 0;  // bytes per column of operands that are constant over rows; the tile kernels load them before they multiply
  uint8_t boxed_in = none, boxed_out = none;  // operands of A's size that the tile kernels copy in boxes: one load, one store
  std::vector<Im2col2d> patches;  // one kernel each, for one layout of A
  std::vector<Im2col3d> bricks;  // none or one
  std::vector<uint8_t> together;  // operands that the kernels for aligned addresses access in vectors of eight
  // An operand of the prologue, if there is one. All of its sizes are literals in the text.
  struct Source {
    ir::DType dtype;
    bool together;
    std::vector<int64_t> dims, strides;
  };
  std::vector<Source> sources;
  int64_t row = 0;  // length of the prologue's row
  uint8_t pieces = 1;   // number of B's operands, side by side along N; more than one: only for one or a few rows and B along K
  bool few_rows = false;  // the plan has code for few rows
  bool gated = false;   // gated epilogue: the body has half of B's columns and reads both halves (silu(gate) * up); more than a few rows: on Hopper alone
  // True if there are more indices than an image's rows (n, h, w) and K (h, w, c) have.
  bool is_volume() const { return map.m_rank > 3 || map.k_rank > 3; }
  bool has_prologue() const { return !sources.empty(); }
  int64_t together_of_a() const { return 16 / static_cast<int64_t>(ir::size_of(type)); }  // elements that are read at once
  int64_t b_together() const { return 16 / static_cast<int64_t>(ir::size_of(b_type)); }
  size_t left() const { return has_prologue() ? sources.size() : 1; }  // number of operands before B
  int boxed_bytes() const { return boxed_in == none && boxed_out == none ? 2 : static_cast<int>(ir::size_of(type)); }  // of an element in boxes
  size_t behind() const { return left() + pieces; }                  // index of the body's first operand
};
std::vector<std::byte> serialise(const GemmArgs&);
// Checks every index. Error (format).
GemmArgs parse_gemm_cuda(std::span<const std::byte>);

// Kernels: name_t0.. for large_tiles (Hopper only, if CudaTiles can describe A and B); name_0.. for these tiles; name_finish adds the partial
// sums of several blocks; name_row for one row and B along K, name_rows for a few; name_one_1 (the smallest tile) if only A is unaligned; name_patch_0.. for some
// convolutions of few channels, name_brick for others, of stride 1; name_any_1, name_any_finish, name_any_row and name_any_rows for unaligned operands. A prologue
// exists only in the two kernels for one row, piecewise B in those and in the two for few; a gated epilogue also in those whose groups of warps multiply (Hopper), as columns of both halves in one tile.
struct WarpTile {
  int rows, columns, threads;
};
inline constexpr WarpTile warp_tiles[] = {{128, 128, 256}, {64, 64, 128}};
// Bytes of a stage, for A and B. The results of the groups replace them at the end. Columns are in boxes of 64.
#define INGOT_CUDA_GEMM_STAGE \
  constexpr int gemm_stage_bytes(int rows, int columns) { return (rows + (columns + 63) / 64 * 64) * 128; }
INGOT_CUDA_GEMM_STAGE
// Groups of four warps multiply 64 rows each, or alternate on whole tiles (`in_turn`); one more warp copies tiles.
struct LargeTile {
  // Microseconds on an H100 or H200: a step along K for a block that shares the multiprocessor, for a block that has it alone, and a tile's epilogue.
  struct Cost {
    double turn, alone, behind;
  };
  int rows, columns, stages, blocks;  // blocks: per multiprocessor
  Cost halves, floats;
  int in_turn = 0;  // number of alternating groups, each with its own tile of results; 0: results replace a stage
  int cluster = 1;  // blocks with the same columns, of which each copies a share of B to all
  constexpr int threads() const { return (in_turn > 0 ? in_turn * 128 : rows * 2) + 32; }
  // Bytes: the tiles, two barriers per stage, two per alternating group, and each group's column operands. `element`: bytes of a result in boxes.
  constexpr int shared(int column_bytes, int element) const {
    const int groups = in_turn > 0 ? in_turn : rows / 64;
    return shared_of(stages_beside(element), element) + groups * columns * column_bytes;
  }
  // Fewer than `stages` where alternating groups' results are floats, which take twice the room.
  constexpr int stages_beside(int element) const;
  constexpr int shared_of(int count, int element) const { return count * gemm_stage_bytes(rows, columns) + in_turn * rows * columns * element + 16 * (count + in_turn); }
  // Blocks that compute a result of m x n, without the parts of K.
  constexpr int64_t grid(int64_t m, int64_t n, bool gated) const {
    const int64_t high = int64_t{rows} * cluster, wide = results(gated);
    return (m + high - 1) / high * cluster * ((n + wide - 1) / wide);
  }
  // Columns of the result: half of them if the epilogue is gated.
  constexpr int results(bool gated) const { return gated ? columns / 2 : columns; }
  // A tile whose columns of the result are not a multiple of 64 is only for results of whole tiles. Some have no room for floats.
  constexpr bool takes(int64_t n, bool gated, bool of_floats) const { return (results(gated) % 64 == 0 || n % results(gated) == 0) && !(of_floats && floats.turn == 0); }
};
inline constexpr LargeTile large_tiles[] = {{128, 128, 5, 1, {0.40, 0.40, 3}, {0.488, 0.349, 3.218}, 2},
                                            {128, 128, 3, 2, {0.33, 0.6, 2.0}, {0.199, 0.419, 2.799}},
                                            {128, 64, 4, 2, {0.30, 0.39, 1.4}, {0.165, 0.324, 1.741}},
                                            {64, 64, 6, 2, {0.17, 0.17, 1.1}, {0.101, 0.204, 1.333}},
                                            {128, 64, 5, 1, {0.30, 0.30, 3}, {0.194, 0.169, 3.723}, 3},
                                            {128, 160, 5, 1, {0.47, 0.44, 2.5}, {0.47, 0.47, 2.5}, 0, 2},
                                            {128, 192, 5, 1, {0.505, 0.48, 4.4}, {}},
                                            {128, 256, 4, 1, {0.66, 0.54, 6}, {}}};
inline constexpr int large_tile_shared = 227 << 10;  // bytes: the most that a block may have
constexpr int LargeTile::stages_beside(int element) const {
  int count = stages;
  while (shared_of(count, element) > large_tile_shared) --count;
  return count;
}
inline constexpr int gemm_row_bytes = 128, gemm_stages = 3;  // bytes of K per row or column of a tile; stages in shared memory
inline constexpr int gemm_finish_threads = 256, gemv_threads = 256;
inline constexpr int gemv_blocks = 2;  // per multiprocessor
inline constexpr int gemv_shared = 2 * gemv_threads / 32 * 8 * 4;  // bytes per half of gated columns, in addition to the prologue's row
inline constexpr size_t max_gemv_pieces = 4;  // of B
inline constexpr int64_t max_skinny_rows = 8;
inline constexpr size_t max_skinny_pieces = 128;  // kernels have 4096 bytes of parameters
inline constexpr int skinny_shared = 8 * gemv_shared;  // bytes per half of gated columns
inline constexpr int gemv_ring = 2 * 8 * 16 * gemv_threads;  // bytes: two iterations of int8
inline constexpr int64_t max_gemv_k = 24576;  // elements that fit shared memory besides the above, for two blocks
inline constexpr int64_t max_prologue_k = 8192;  // elements: every block computes the whole row

}  // namespace ingot::kernels
