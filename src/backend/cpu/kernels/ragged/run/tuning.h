// The numbers behind tasks of products of experts on the CPU.
#pragma once
#include <cstdint>

namespace ingot::kernels::ragged::tuning {

// Panels of a task: with fewer, reading A's rows again for each task costs more than idle workers (an estimate, not measured).
inline constexpr int64_t least_panels = 4;

}  // namespace ingot::kernels::ragged::tuning
