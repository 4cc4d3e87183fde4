// One worker's share of a convolution that reads windows in place.
#pragma once
#include <span>

#include "backend/cpu/kernels/conv/run/tuning.h"
#include "backend/cpu/kernels/conv/run/windows.h"

namespace ingot::kernels::conv {

// What a tile reads for taps outside A.
extern const float zeros[tuning::max_zeros];

class Worker {
 public:
  // A segment of a line: its outputs [x0, x1). `tile` has `to` and `residual` of the first one.
  struct Unit {
    WindowTaps::Lists lists;
    IndexMap::Position start;
    int64_t x0 = 0, x1 = 0, begin = 0, end = 0;  // begin, end: of the current run
    DirectTile tile;
    VectorEnd program;
    size_t together = 1;  // units from here on whose outputs of the current run are computed across lines
  };

  // `units`: how many it runs at a time, at most.
  Worker(const Call& call, const Constants& c, const Windows& p, int worker, int64_t units);

  // Runs units [first, first + count), at most `units` of the plan, on some of the columns.
  void run(int64_t first, int64_t count, std::span<const Columns> columns);

  // For kernels with sums of their own. `block_bytes` of the worker's memory.
  float* block() const { return block_; }
  const float* panel(const Columns& columns) const { return panels_ + columns.b; }
  Unit& unit() { return units_[0]; }
  // Moves the unit to this segment of a line.
  void set(Unit& u, int64_t index);
  // The same, for tiles that write the result.
  void begin(Unit& u, int64_t index);
  // The unit's tile for some columns, at the line's first output.
  DirectTile tile_of(const Unit& u, const Columns& columns) const;
  // Outputs [begin, end) of a unit from their own windows.
  void in_place(Unit& u, const Columns& columns, int64_t begin, int64_t end) const;

 private:
  std::span<const TensorRef> operands() const { return body_operands(call_.operands); }
  const TensorRef& operand(int k) const { return operands()[static_cast<size_t>(k)]; }
  float* floats(int k) const;
  void by_lines(int64_t index);
  void outputs(std::span<Unit> units);
  void join_lines(std::span<Unit> units, const WindowTaps::Run& run) const;
  const TileList& tiles_of(const Columns& columns, int64_t outputs = 0) const;
  void across(std::span<const Unit> units, const Columns& columns) const;
  void tiles(const Unit& u, const WindowTaps::Run& run, const Columns& columns, bool first_columns, size_t unit) const;

  const Call& call_;
  const Constants& c_;
  const Windows& p_;
  const float *panels_, *bias_, *scale_;
  float *sums_, *block_;
  std::byte* body_;
  union {  // only as many are constructed as are used: all of them are a third of a first-level cache
    Unit units_[tuning::max_units];
  };
  std::span<const Columns> columns_;
  int64_t at_[max_rank] = {};
};

}  // namespace ingot::kernels::conv
