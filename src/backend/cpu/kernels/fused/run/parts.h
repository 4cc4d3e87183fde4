// Which values of a fused step's program are worth computing once, over the axes on which they depend, and holding.
#pragma once
#include <vector>

#include "backend/cpu/kernels/fused/run/cut.h"

namespace ingot::kernels {

inline constexpr Axes in_no_part = all_axes;

struct Parts {
  std::vector<Axes> of;    // per instruction: the axes of its part, or in_no_part
  std::vector<Axes> sets;  // of axes that have a part, those of fewer axes first
};

// `axes`: those of each instruction (axes_of).
Parts choose_parts(const Bound&, const Program&, const std::vector<Axes>& axes);

// True if a store, or an instruction that is in another set of axes, reads instruction k. `sets`: of each instruction.
bool is_read_beyond(const Program&, const std::vector<Axes>& sets, uint32_t k);

}  // namespace ingot::kernels
