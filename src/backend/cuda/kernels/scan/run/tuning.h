// How scans are divided among thread blocks. H200, `python bench/operators.py` (docs/performance-notes/operators.md, 0086); bounds between cases that differ by factors, none was measured by itself.
#pragma once
#include <cstdint>

namespace ingot::kernels::scan_tuning {

// Lines that are neighbours in memory. A block scans 32 of them in parts: from so many lines on, up to so many, which fill a device with a thread each; elements of the longest part, unless there is a block for
// each multiprocessor.
inline constexpr int64_t min_columns = 16, max_columns = 1 << 17, longest_part = 256;
// Elements of a line that a thread scans alone, and lines from which threads of their own fill the device.
inline constexpr int64_t max_thread_line = 64, min_lines = 2048;
// Threads of a block, and elements of each, that scan a tile of a line; threads of a block that scans 32 columns, all that a block may have.
inline constexpr int threads = 256, items = 8, column_threads = 1024;
inline constexpr int64_t tile = threads * items;

}  // namespace ingot::kernels::scan_tuning
