// How convolutions in groups, and of few columns, are divided among threads. H100 and H200, `python bench/convolutions.py` (docs/performance-notes/convolutions_cuda.md: few columns); the numbers are estimates.
#pragma once
#include <cstdint>

namespace ingot::kernels::gemm::grouped_tuning {

// Threads of a multiprocessor that keep it busy; threads that share a sum, at most.
inline constexpr int64_t threads_of_multiprocessor = 192;
inline constexpr int max_threads_of_sum = 8;
// Outputs of a line from which matrix instructions, which have 16 rows, multiply groups.
inline constexpr int64_t min_outputs_of_line = 4;

}  // namespace ingot::kernels::gemm::grouped_tuning
