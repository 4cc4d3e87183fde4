// A float32 body with short rows (a few channels per pixel, in a pooling, a resize or a residual). All of it runs in registers, row after row,
// rather than one instruction after another over each row.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/fused/run/row_steps.h"
#include "backend/cpu/kernels/fused/run/row_walk.h"

namespace ingot::kernels {

struct RowBody {
  RowWalk walk;
  RowSteps steps;
  int64_t columns = 0;
  // If the body is the greatest or least of loads: their operands of the walk, in order, then the store's. `steps` is unused.
  std::vector<uint8_t> extreme;
  bool greatest = false;
  std::optional<float> fill;  // of excluded loads, if it is finite, so that it counts; only in short rows

  // Runs rows [begin, end). `held`: data of the extra operands after the step's own. Error (invalid_input) for an index out of range.
  void run(std::span<const TensorRef> operands, std::byte* const* held, int64_t begin, int64_t end) const;

 private:
  void run_extreme(RowWalk::At&, int64_t rows) const;
};
// nullopt if the body does something else, or rows are long.
std::optional<RowBody> row_body(const Bound&);
// True if a body without indices in memory becomes one with its axes in this order, most likely.
bool may_be_row_body(const Bound&, const Program&);

}  // namespace ingot::kernels
