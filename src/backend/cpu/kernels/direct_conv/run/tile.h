// Register tiles of convolutions that read windows where they lie, one table an instruction set.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "backend/cpu/kernels/run/sum_end.h"
#include "backend/cpu/kernels/run/window_taps.h"

namespace ingot::kernels {

// After about so many products a tile puts its sums aside and begins again at zero: sums of sums are nearer to the truth than one long sum.
constexpr int64_t longest_sum = 128;

// Outputs side by side on a line, and some columns of B.
struct DirectTile {
  const float* a = nullptr;       // of the first output
  int64_t a_step = 0;             // from output to output
  const WindowTap* taps = nullptr;
  int64_t count = 0;
  uint32_t ends = WindowTap::none;        // of its run that the tile begins or ends with
  const float* zeros = nullptr;           // what an output reads that a place is outside for
  int64_t inner = 1, inner_step = 1;      // of each tap: elements of A, so far apart, each times a row of B
  const float* b = nullptr;
  int64_t b_row = 0;
  float* to = nullptr;
  int64_t to_step = 0;
  int columns = 0;                    // that are stored
  SumEnd end;
};

struct DirectTiles {
  static constexpr int outputs_of_one = 12, outputs_of_groups = 6;
  int lanes, outputs_of_two;
  using Tile = void (*)(const DirectTile&);
  const Tile *two, *one;          // by outputs: of two vectors of columns, of one; all columns read the same elements of A
  // Groups of fewer columns than a vector has: each vector has several, one behind another in A and B. Null where there is none for groups of these sizes.
  const Tile* (*narrow)(int64_t channels, int64_t columns);
};

// Of the best instruction set for groups of so many columns.
const DirectTiles& direct_tiles(bool grouped, int64_t columns);
extern const DirectTiles direct_tiles_portable, direct_tiles_avx2, direct_tiles_avx512;

}  // namespace ingot::kernels
