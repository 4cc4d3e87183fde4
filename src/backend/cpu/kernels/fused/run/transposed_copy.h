// A body that only copies, between memories whose neighbours are different axes: in tiles, so that both are read and written by whole cache lines.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/cpu/kernels/fused/run/program.h"

namespace ingot::kernels {

struct TransposedCopy {
  struct Axis {
    int64_t extent, from, to;  // strides in elements
  };
  std::vector<Axis> outer;
  Axis row, column;            // neighbours where it is written, neighbours where it is read
  size_t load, store;          // operands
  int64_t units = 1;           // outer places times blocks of rows

  void run(std::span<const TensorRef> operands, int64_t begin, int64_t end) const;  // of the units
};
// nullopt: it is another body, or neighbours are the same.
std::optional<TransposedCopy> transposed_copy(const Bound&);

}  // namespace ingot::kernels
