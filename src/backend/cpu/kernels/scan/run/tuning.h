// How scans are divided on the CPU. AMD EPYC, `python bench/operators.py` (docs/performance-notes/operators.md); the numbers are estimates.
#pragma once
#include <cstdint>

namespace ingot::kernels::scan_cpu_tuning {

// Lines that go together, in multiples of the least, since each step of one line waits for the step before.
inline constexpr int64_t max_lines = 32, least_lines = 4;
// Tasks for each worker; elements below which a scan is one task: some 10 microseconds.
inline constexpr int64_t tasks_of_worker = 4, min_divided = 20000;
// Elements that are converted at once, 16 KB of a first-level cache of 32 KB.
inline constexpr int64_t converted_elements = 2048;

}  // namespace ingot::kernels::scan_cpu_tuning
