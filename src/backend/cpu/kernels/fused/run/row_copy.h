// A body that only copies short rows, from places that are known or that indices in memory say (an embedding, a padding): without byte code for each.
#pragma once
#include <optional>
#include <span>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/fused/run/row_walk.h"

namespace ingot::kernels {

struct RowCopy {
  RowWalk walk;      // of the load, then the store
  size_t bytes = 0;  // of a row

  // Rows [begin, end). `held`: where the operands behind the step's own lie. Error (invalid_input) of an index that is out of range.
  void run(std::span<const TensorRef> operands, std::byte* const* held, int64_t begin, int64_t end) const;
};
// nullopt: it does something else, or rows are long.
std::optional<RowCopy> row_copy(const Bound&);

}  // namespace ingot::kernels
