// A body that only copies, from one contiguous axis to another: done in tiles, so that whole cache lines are read and written.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/cpu/kernels/fused/run/program.h"

namespace ingot::kernels {

struct TransposedCopy {
  struct Axis {
    int64_t extent, from, to;  // strides, in elements
  };
  std::vector<Axis> outer;
  Axis row, column;            // contiguous in the destination, contiguous in the source
  size_t load, store;          // operand indices
  size_t element;              // bytes
  int64_t units = 1;           // outer elements times blocks of rows

  int64_t blocks() const;      // of rows
  void run(std::span<const TensorRef> operands, int64_t begin, int64_t end) const;  // runs units [begin, end)
};
// nullopt if it is another body, or both sides have the same contiguous axis.
std::optional<TransposedCopy> transposed_copy(const Bound&);

}  // namespace ingot::kernels
