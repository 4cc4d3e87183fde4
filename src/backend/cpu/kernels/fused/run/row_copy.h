// A body that only copies short rows, at fixed or indexed places (an embedding, a padding), without byte code.
#pragma once
#include <optional>
#include <span>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/fused/run/row_walk.h"

namespace ingot::kernels {

struct RowCopy {
  RowWalk walk;      // of the load, then of the store
  size_t bytes = 0;  // per row
  size_t element = 0;              // its bytes

  // Copies rows [begin, end). `held`: data of the extra operands after the step's own. Error (invalid_input) for an index out of range.
  void run(std::span<const TensorRef> operands, std::byte* const* held, int64_t begin, int64_t end) const;
};
// nullopt if the body does something else, or rows are long.
std::optional<RowCopy> row_copy(const Bound&);

}  // namespace ingot::kernels
