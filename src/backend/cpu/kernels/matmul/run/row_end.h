// The epilogue of a row of sums that are in memory.
#pragma once
#include <algorithm>
#include <cstdint>

#include "backend/cpu/kernels/fused/run/program.h"

namespace ingot::kernels {

// Of columns [first, first + count) of the row that `at` says, as many at a time as the program holds. `words`: floats in the memory of a sum.
inline void end_row(Evaluator& evaluator, const Bound& bound, const int64_t* at, int64_t first, int64_t count, const float* sums, int64_t words) {
  const auto longest = static_cast<int64_t>(bound.block);
  for (int64_t j = 0; j < count; j += longest) evaluator.segment(at, first + j, std::min(count - j, longest), sums + j * words);
}

}  // namespace ingot::kernels
