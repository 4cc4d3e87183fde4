// Register tiles of convolutions with vectors along lines of outputs, one table per instruction set. Images and results lie as [N, C, H, W].
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "backend/cpu/kernels/conv/run/tile.h"

namespace ingot::kernels {

// Outputs of one line: as many as a vector has lanes, or the last ones of the line.
struct LineVector {
  int64_t a, to;                       // where it reads and writes, from LineTile's `a` and `to`
  int64_t count;                       // outputs to store
};

// to[vectors[v].to + c * to_step + i * output_step] = sum over k of a[vectors[v].a + taps[k] + i] * b[k * b_row + c] + bias[c], for all columns c and outputs i.
// A call adds some of the taps.
struct LineTile {
  const float* a = nullptr;
  const LineVector* vectors = nullptr;
  int count = 0;                       // of vectors
  const int64_t* taps = nullptr;
  int64_t begin = 0, end = 0;          // the taps of this call
  bool first = true, last = true;      // of the calls for these sums
  float* kept = nullptr;               // sums between calls and before the epilogue: a vector for each column of the tile and each of `vectors`
  const float* b = nullptr;            // as many columns as the tile has, of which `columns` are stored
  int64_t b_row = 0;
  float* to = nullptr;
  int64_t to_step = 0, output_step = 1;
  int columns = 0;
  const float* bias = nullptr;         // null: none
  bool clamps = false;
  float low = 0, high = 0;
};

// Vectors below one another in neighbouring lines, of one column. Each element is loaded once for all lines that it is multiplied for.
struct LineColumn {
  static constexpr int rows[] = {7, 8};  // vectors, and outputs below one another
  static constexpr int taps[] = {3, 5, 7};
  const float* a = nullptr;            // what the first tap of the first vector reads
  int64_t a_row = 0;                   // from a line to the next
  struct Taps {
    int64_t a, b;                      // the first of some taps below one another; they are `b_row` apart in B
  };
  std::span<const Taps> taps_of;
  const float* b = nullptr;
  int64_t b_row = 0;
};

struct LineTiles {
  struct Tile {
    void (*run)(const LineTile&);
    int vectors;                       // at most
  };
  // `end`: the vectors that are stored, and the epilogue.
  using Column = void (*)(const LineColumn&, const LineTile& end);
  int lanes, max_columns;
  const Tile* by_columns;              // 1 .. most_columns; a tile may have more columns than it stores
  const Column (*column)[3];           // by index in LineColumn::rows and LineColumn::taps; null: none
  // Sums of `outputs_across` neighbouring outputs and two vectors of columns, which stay in `kept` as [output][column]. Null: none.
  int outputs_across;
  void (*across)(const LineTile&);
  // Stores the sums of some vectors, [column][vector], with the epilogue.
  void (*finish)(const LineTile&, const float* sums, const LineVector* at, int count);
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
