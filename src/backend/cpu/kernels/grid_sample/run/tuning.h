// How sampling is divided among workers of a CPU.
#pragma once
#include <cstdint>

namespace ingot::kernels::grid_sample_tuning {

// Elements of the result of a task at least: some 2 microseconds of an AMD EPYC, about what it takes to wake a worker (docs/performance-notes/calls_and_threads.md).
inline constexpr int64_t task_elements = 4096;

}  // namespace ingot::kernels::grid_sample_tuning
