// A body that only copies short rows, from places that are known or that indices in memory say (an embedding, a padding): without byte code for each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/cpu/kernels/fused/run/program.h"

namespace ingot::kernels {

struct RowCopy {
  struct Axis {
    int64_t extent, from, to;      // strides in bytes
  };
  struct Index {
    uint32_t operand;
    std::vector<int64_t> strides;  // in elements, along each axis
    int64_t extent, step;          // of what it chooses from; bytes
  };
  std::vector<Axis> axes;          // of rows
  std::vector<Index> indices;
  uint32_t load = 0, store = 0;    // operands
  size_t bytes = 0;                // of a row
  int64_t rows = 1;

  // Rows [begin, end). `held`: where the operands behind the step's own lie. Error (invalid_input) of an index that is out of range.
  void run(std::span<const TensorRef> operands, std::byte* const* held, int64_t begin, int64_t end) const;
};
// nullopt: it does something else, or rows are long.
std::optional<RowCopy> row_copy(const Bound&);

}  // namespace ingot::kernels
