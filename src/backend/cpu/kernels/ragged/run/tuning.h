// The numbers of tasks of products of experts on the CPU: estimates, which `ingot bench PLAN --steps` of a model with experts measures, on an AMD EPYC.
#pragma once
#include <cstdint>

namespace ingot::kernels::ragged::tuning {

// Panels of a task: with fewer, reading A's rows again for each task costs more than idle workers.
inline constexpr int64_t least_panels = 4;
inline constexpr int64_t segment = 512;      // columns whose sums are kept until the epilogue, at most
inline constexpr int64_t read_ahead = 4096;  // bytes after a panel that tiles may prefetch

}  // namespace ingot::kernels::ragged::tuning
