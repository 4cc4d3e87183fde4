// Register tiles of GEMMs that accumulate in f32, one table per instruction set.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "backend/cpu/kernels/matmul/run/tuning.h"
#include "backend/cpu/kernels/run/tile_end.h"
#include "backend/cpu/run/hardware.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::kernels {

// What the caller reads next, asked for while this tile computes: `lines` cache lines (0, 1, 2 or 4) from `next` on for every four rows of the panel.
struct Ahead {
  const std::byte* next = nullptr;
  int lines = 0;
};

// Many products of small matrices: sizes, and distances in floats.
struct SmallProducts {
  int64_t m, k, n;
  int64_t a_row, a_column, a_batch, b_row, b_batch, c_row, c_batch;
};

struct TileOps {
  int columns;  // of a tile: the width of a panel
  // C[r, 0:columns] (+)= sum over k of A[r, k] * B[k, 0:columns] for the rows r of the tile. `first`: C is written, not
  // added to. `end`: not null for the last K block.
  using Tile = void (*)(const void* a, int64_t lda, const void* b, int64_t k, float* c, int64_t ldc, bool first, const TileEnd* end, Ahead ahead);
  struct Tiles {
    int rows = 0;                // of the largest tile
    const Tile* tile = nullptr;  // by number of rows, 1 .. rows
    // The same with results that do not depend on the number of rows: sums run in order of k, while tiles of few rows would sum several parts at once.
    const Tile* in_order = nullptr;
    void (*release)() = nullptr;  // called by a thread after its tiles; null if there is nothing to do
    // Runs `rounds` of independent multiply-adds in registers and returns the number of floating-point operations, to measure the machine.
    double (*multiply_adds)(int64_t rounds) = nullptr;
    // For a last panel that is not full, if the epilogue is short and all it reads is f32: reads and writes only the first `columns` columns. By number of
    // rows; [0]: up to half of a panel, [1]: more. Null if there are none. Of doubles [0] alone, for any number of columns: it writes whole vectors.
    using PartTile = void (*)(const void* a, int64_t lda, const void* b, int64_t k, float* c, int64_t ldc, bool first, const TileEnd* end, int columns);
    const PartTile* part[2] = {};
  };
  Tiles f32, f16, bf16;  // by the panel's type; A is f32. bf16 is in pairs along K (panel_depth): a row of the panel is two rows of B
  Tiles f64, i64;        // A, the panel and C (a float* only by its type) are double, or integers; no epilogue
  void (*widen)(ir::DType half, float* to, const uint16_t* from, int64_t n);
  void (*small_products)(const SmallProducts&, const float* a, const float* b, float* c, int64_t count);
  // A and the panel are bf16. Empty if the instruction set has no bf16 dot products, or no matrix registers.
  Tiles bf16_dots = {}, bf16_matrix = {};
};

const TileOps& tile_ops();
extern const TileOps tile_ops_portable, tile_ops_avx2, tile_ops_avx512;
// With the columns of tile_ops_avx512.
extern const TileOps::Tiles bf16_dots_avx512_bf16, bf16_matrix_amx;

// The operands of a product, as far as they decide which tiles there are.
struct Operands {
  ir::DType a, b;
  ir::DType sum = ir::DType::f32;  // or f64, or i64
  bool packed = true;              // B is in panels of its own type
  bool mapped = false;             // A is read through a map
  bool in_order = false;           // a result's bits must not depend on M
  int64_t m = 1;
  Groups groups = {};              // of a packed B
};

// Which tiles multiply A by a panel, and the blocks that suit them. Many rows: a block of A (126 x 384 floats) stays in the second-level cache and a
// panel's part in the first. Few rows: panels are read once and whole, and the next is fetched while this one is used.
struct Way {
  const TileOps::Tiles* tiles;
  ir::DType a;                    // type of A as tiles read it
  ir::DType panel;                // of B
  int64_t rows, max_narrow_rows, k_narrow, k_wide;  // of a block: its approximate number of rows; its size of K with up to `max_narrow_rows` rows, and with more
  // Matrix registers are limited by memory: workers share the rows, and each reads panels of its own, prefetched.
  bool matrix = false;
  ir::DType decoded = ir::DType::i8;  // the type to which blocks of an int8 panel are decoded; i8: they are not
  int64_t sum = INT64_MAX;        // at most this many products are one sum: sums of sums are more accurate. In order, it does not depend on the number of rows
  Groups groups = {};             // of a panel of i8: its numbers have 4 bits
  bool decodes() const { return decoded != ir::DType::i8; }
  int64_t k_size(int64_t m) const { return m <= max_narrow_rows ? k_narrow : k_wide; }
  // Blocks of about `rows` rows and of even size, so that no small remainder reads all of B again.
  int64_t blocks(int64_t m) const { return std::max<int64_t>(1, (m + rows / 2) / rows); }
  int64_t max_rows() const { return rows * 3 / 2; }
  // The tiles of a block of rows, and the first row of each: of even size, but whole ones for matrix registers.
  int64_t tile_count(int64_t of_rows) const { return (of_rows + tiles->rows - 1) / tiles->rows; }
  int64_t first_row(int64_t tile, int64_t count, int64_t of_rows) const { return matrix ? std::min(of_rows, tile * tiles->rows) : of_rows * tile / count; }
};

// Tiles that accumulate in registers, and widen half types and int8 on the way: for any operands.
Way way_of_tiles(const Operands&);
// Dot products of bf16 pairs, and matrix registers. nullopt: not for these operands, or not on this machine.
std::optional<Way> way_of_dots(const Operands&), way_of_matrix(const Operands&);
// The fastest of them, for kernels that learn while they run how many rows a block has.
Way way_of(const Operands&);

}  // namespace ingot::kernels
