// How small matrices are divided among workers of a CPU.
#pragma once
#include <cstdint>

namespace ingot::kernels::small_matrix_tuning {

// Multiplications of vectors of a task at least: some 5 microseconds of an AMD EPYC at half of its peak, longer than it takes to wake a worker (docs/performance-notes/calls_and_threads.md). An estimate.
inline constexpr int64_t work_of_task = 20000;

}  // namespace ingot::kernels::small_matrix_tuning
