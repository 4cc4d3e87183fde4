// Register tiles of convolutions with vectors along lines of outputs, one table per instruction set. Images and results lie as [N, C, H, W].
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "backend/cpu/kernels/direct_conv/run/tile.h"

namespace ingot::kernels {

// Outputs of one line: as many as a vector has lanes, or the last ones of the line.
struct LineVector {
  int64_t a, to;                       // where it reads and writes, from LineTile's `a` and `to`
  int64_t count;                       // outputs to store
};

// to[vectors[v].to + c * to_step + i] = sum over k of a[vectors[v].a + taps[k] + i] * b[k * b_row + c] + bias[c], for all columns c and outputs i.
struct LineTile {
  const float* a = nullptr;
  const LineVector* vectors = nullptr;
  int64_t count = 0;                   // of vectors
  const int64_t* taps = nullptr;
  int64_t tap_count = 0, block = 0;    // `block` taps are a sum of their own: such sums are more accurate than long ones, and what they read stays in the cache
  float* kept = nullptr;               // sums between blocks and before the epilogue: a vector for each column of the tile and each of `vectors`
  const float* b = nullptr;            // as many columns as the tile has, of which `columns` are stored
  int64_t b_row = 0;
  float* to = nullptr;
  int64_t to_step = 0;
  int columns = 0;
  const float* bias = nullptr;         // null: none
  bool clamps = false;
  float low = 0, high = 0;
};

struct LineTiles {
  using Tile = void (*)(const LineTile&);
  int lanes, most_columns;
  const Tile* by_columns;              // 1 .. most_columns; a tile may have more columns than it stores
  // Elements [first, last) of each row, and zeros around them up to `count`; it writes whole vectors.
  void (*copy)(float* to, int64_t to_step, const float* from, int64_t from_step, int64_t rows, int64_t first, int64_t last, int64_t count);
  // Of each row, elements start, start + 2 .. and then start + 1, start + 3 .., `run` of each, with zeros for those outside [0, size).
  void (*copy_by_two)(float* to, int64_t run, const float* from, int64_t from_step, int64_t rows, int64_t start, int64_t size);
  // Every `step`-th element.
  void (*take)(float* to, const float* from, int64_t step, int64_t count);
};

const LineTiles& line_tiles();
extern const LineTiles line_tiles_portable, line_tiles_avx2, line_tiles_avx512;

}  // namespace ingot::kernels
