// A body of float32 whose rows are short: the pixels of a pooling, of a resize, of a residual, a few channels each. All of it runs in registers, row after row, without a
// pass of each instruction over each row.
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

  // Rows [begin, end). `held`: where the operands behind the step's own lie. Error (invalid_input) of an index that is out of range.
  void run(std::span<const TensorRef> operands, std::byte* const* held, int64_t begin, int64_t end) const;
};
// nullopt: it does something else, or rows are long.
std::optional<RowBody> row_body(const Bound&);

}  // namespace ingot::kernels
