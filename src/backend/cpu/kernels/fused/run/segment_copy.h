// A copy each of whose rows is made of the same few segments of an operand's row: paddings, rolls, flips, slices. The places are known when the step is bound.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "backend/cpu/kernels/fused/run/cut.h"

namespace ingot::kernels {

struct SegmentCopy {
  struct Axis {                    // an outer one
    int64_t extent, to, from;      // strides in bytes
    std::vector<int64_t> table;    // offsets in bytes in place of `from`, or `outside`; may be empty
  };
  static constexpr int64_t outside = INT64_MIN;
  uint32_t load, store;            // operands
  size_t element = 0;              // bytes
  uint64_t fill = 0;               // the bits of what is outside
  int64_t base = 0;                // bytes
  std::vector<Axis> outer;         // the innermost last; never empty
  std::vector<std::vector<RowSegment>> parts;  // of each row, for different tasks
  int64_t rows = 1, units = 1, tasks = 1;

  void run(std::span<const TensorRef> operands, int64_t begin, int64_t end) const;  // of the units
};

// The last part of a cut, whose known parts are computed. nullopt: it does something else, or its rows have too many segments.
std::optional<SegmentCopy> segment_copy(const Cut&, int64_t workers);

}  // namespace ingot::kernels
