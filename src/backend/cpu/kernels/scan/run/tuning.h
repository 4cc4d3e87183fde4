// How scans are divided on the CPU. AMD EPYC, `python bench/operators.py` (docs/performance-notes/operators.md), and an Intel Xeon with AMX, `python bench/constants.py --only scan` (docs/performance-notes/evidence.md:
// numbers beside others).
#pragma once
#include <cstdint>

namespace ingot::kernels::scan_cpu_tuning {

// Lines that go together, in multiples of the least, since each step of one line waits for the step before: 2,000 x 8 along the first axis takes
// 0.8 to 0.9 of the time with 8 lines at least that it takes with 4.
inline constexpr int64_t max_lines = 32, least_lines = 8;
// Tasks for each worker; elements below which a scan is one task: some 10 microseconds.
inline constexpr int64_t tasks_of_worker = 4, min_divided = 20000;
// Elements that are converted at once, 16 KB of a first-level cache of 32 KB.
inline constexpr int64_t converted_elements = 2048;

}  // namespace ingot::kernels::scan_cpu_tuning
