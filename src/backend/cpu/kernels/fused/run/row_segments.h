// Rows that are copied segment by segment (segment_copy.h).
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

// Elements `to` to `to + n` of a row: from[k * step], or the fill value.
struct RowSegment {
  int64_t to = 0, from = 0, n = 0, step = 0;
  bool fills = false;
};

// Rows one after another, in bytes.
struct RowPlaces {
  std::byte* to;
  int64_t to_step;
  const std::byte* from;           // null: all rows are filled
  int64_t from_step;
  const int64_t* table;            // of offsets from `from`, in place of from_step; INT64_MIN: the row is filled. May be null
  int64_t rows;
  bool anywhere = false;           // the table's rows are far from one another
};

}  // namespace ingot::kernels
