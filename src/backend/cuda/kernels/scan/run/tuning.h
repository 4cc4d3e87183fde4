// How scans are divided among thread blocks. H200, `python bench/operators.py` (docs/performance-notes/operators.md, 0086); bounds between cases that differ by factors, none was measured by itself.
#pragma once
#include <cstdint>

namespace ingot::kernels::scan_tuning {

// Lines side by side in memory of which a block scans 32 in parts: from so many lines on, up to so many, which fill a device with a thread each; elements of the longest part, unless there is a block for
// each multiprocessor.
inline constexpr int64_t min_columns = 16, max_columns = 1 << 17, longest_part = 256;
// Elements of a line that a thread scans alone, and lines from which threads of their own fill the device.
inline constexpr int64_t short_line = 64, many_lines = 2048;

}  // namespace ingot::kernels::scan_tuning
