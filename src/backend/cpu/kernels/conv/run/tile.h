// Register tiles of convolutions that read windows in place, one table per instruction set.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "backend/cpu/kernels/conv/run/tuning.h"
#include "backend/cpu/kernels/run/sum_end.h"
#include "backend/cpu/kernels/run/window_taps.h"

namespace ingot::kernels {

using conv::tuning::longest_sum;

// Adjacent outputs of a line, and some columns of B.
struct DirectTile {
  const float* a = nullptr;       // at the first output
  int64_t a_step = 0;             // from one output to the next
  const WindowTap* taps = nullptr;
  int64_t count = 0;
  uint32_t ends = WindowTap::none;        // the ends of its run that are in the tile
  const float* zeros = nullptr;           // what an output reads for a tap that is outside
  int64_t inner = 1, inner_step = 1;      // of a tap of length 1: elements of A, this far apart, each times a row of B
  const float* b = nullptr;
  int64_t b_row = 0;
  float* to = nullptr;
  int64_t to_step = 0;
  int columns = 0;                    // to store
  // What is read after this tile, asked for while it computes: this many cache lines at each tap.
  const std::byte* next = nullptr;
  int64_t next_lines = 0;
  SumEnd end;
};

// Winograd's transformation F(2 x 2, 3 x 3): 16 products for each element of a window of 4 x 4 give 2 x 2 outputs, which are 36 products otherwise. Of the 16
// values of a window, or of a kernel, each is `stride` elements after the one before it.
struct WinogradTiles {
  // From the 16 places of a window, row by row; at least as many channels as lanes.
  void (*image)(const float* const* places, int64_t channels, float* to, int64_t stride);
  // From nine matrices of `rows` rows of some vectors of columns, `matrix` elements apart; rows are `from_row` apart.
  void (*weights)(const float* from, int64_t matrix, int64_t from_row, int64_t rows, int vectors, float* to, int64_t stride);
  // Outputs [x, outputs) of a line, two for each window: the line above or below. `sums` are those of the line's first window; `tile`, with one or two vectors of
  // columns, has `to`, `end` and `columns`. Returns where it stops: at two outputs that are not finite, which are not stored.
  int64_t (*results[2])(const DirectTile& tile, const float* sums, int64_t stride, bool below, int64_t x, int64_t outputs);
};

struct DirectTiles {
  static constexpr int outputs_of_groups = conv::tuning::outputs_of_groups;
  int lanes, outputs_of_two, outputs_of_one;
  using Tile = void (*)(const DirectTile&);
  const Tile *two, *one;          // by number of outputs; for two vectors of columns, for one. All columns read the same elements of A
  // For one vector of columns, if taps come in threes that are side by side (WindowTaps::in_threes), with outputs one tap apart or two. From `min_outputs` outputs on; null: none.
  static constexpr int taps_of_threes = conv::tuning::taps_of_threes;
  struct Threes {
    const Tile* by_outputs = nullptr;
    int64_t min_outputs = 0, max_outputs = 0;
  } threes[2];
  // For groups with fewer columns than a vector: each vector holds several groups, contiguous in A and B. Null if there is no tile for groups of these sizes.
  const Tile* (*narrow)(int64_t channels, int64_t columns);
  WinogradTiles winograd;
  // Tiles of 1 to max_dots columns, by number of columns, with vectors along the elements of a tap: a multiple of lanes. B is [columns][K], `b_row` apart. Null: none.
  static constexpr int64_t max_dots = conv::tuning::max_columns_of_dots;
  const Tile* const* dots;
  int outputs_of_dots;
};

// Tiles of the widest vectors, or, for groups, of those that so many columns fill.
const DirectTiles& direct_tiles(bool grouped, int64_t columns);
// Tiles of vectors of this width.
const DirectTiles& direct_tiles_of(int64_t lanes);
extern const DirectTiles direct_tiles_portable, direct_tiles_avx2, direct_tiles_avx512;

}  // namespace ingot::kernels
