// How the blocks of a convolution with vectors along lines are computed, for one set of sizes: lines.cpp chooses it, line_blocks.cpp runs it.
#pragma once
#include <cstdint>
#include <vector>

#include "backend/cpu/kernels/conv/lines/run/line_tile.h"
#include "backend/cpu/kernels/conv/lines/run/lines.h"
#include "backend/cpu/kernels/conv/run/tuning.h"

namespace ingot::kernels {

struct LinePlan {
  static constexpr int max_axes = conv::tuning::max_axes;  // axes of A
  // An index of results, or a summed one: its steps along the axes of A, in the result, the bias and B.
  struct Index {
    int64_t extent, to, bias, b;
    int64_t along[max_axes];
  };

  // The index along lines, or the one from line to line: the axis of A along which it moves, and the one summed index that moves there too.
  struct Along {
    int axis = -1;
    int64_t extent = 1, step = 1, to = 0, taps = 1, dilation = 0;
    int64_t reach(int64_t outputs) const { return (outputs - 1) * step + (taps - 1) * dilation + 1; }  // elements that they read
  };

  // A combination of summed indices.
  struct Tap {
    int64_t plane, y, x;                 // the plane; lines and elements from its start
  };

  const LineTiles* tiles;
  int rank, workers;
  int64_t size[max_axes], stride[max_axes], offset[max_axes];
  std::vector<Index> outer;
  Along x, y;
  int64_t columns, to_column, bias_column, panel, b_column;
  std::vector<int64_t> b_rows;         // strided B: where the row of each tap is
  bool has_bias, clamps, in_place;
  bool across = false;                 // vectors go along columns, a panel at a time
  float low, high;
  std::vector<Index> planes;           // steps from the first plane: the summed indices that move along neither
  std::vector<Tap> taps;
  std::vector<int64_t> tap_offsets;    // in A or in its copy
  bool skips = false;                  // the taps of planes outside A are left out, across also those of lines; else they are zeros in the copy
  struct Range {
    int64_t begin, end;                // taps that are one sum
  };
  // One column: taps below one another, which are computed together for neighbouring lines. Empty: they are not.
  std::vector<LineColumn::Taps> tap_columns;
  LineTiles::Column column = nullptr;
  int64_t rows = 0, tap_distance = 0, b_below = 0;  // lines together; from a tap to the one below it, in `taps` and in B
  // Blocks of outputs.
  int64_t block_y = 1, block_x = 1, blocks_y = 1, blocks_x = 1, units = 0;
  // The copy: `height` rows for each plane, of `phases` runs of `run` elements.
  int64_t phases = 1, run = 0, height = 0, tasks = 1;
  std::vector<uint8_t> used_rows;
  std::vector<int64_t> used_phases;  // in order; a step may be far longer than there are taps
  bool all_rows = true;
  size_t vector_bytes = 0, copy_bytes = 0, b_bytes = 0, kept_bytes = 0, range_bytes = 0;

  int64_t lanes() const { return tiles->lanes; }
  int64_t row() const { return phases * run; }
  int64_t vector() const { return across ? tiles->outputs_across : lanes(); }  // outputs of a LineVector
  int64_t vectors(int64_t outputs) const { return (outputs + vector() - 1) / vector(); }
  size_t per_worker() const { return vector_bytes + copy_bytes + b_bytes + kept_bytes + range_bytes; }
  // Block i of an axis; blocks of lines that are read in place are whole vectors, except the last one, which is longer.
  int64_t begin_x(int64_t i) const { return i * block_x; }
  int64_t end_x(int64_t i) const { return i + 1 == blocks_x ? x.extent : (i + 1) * block_x; }
};

}  // namespace ingot::kernels
