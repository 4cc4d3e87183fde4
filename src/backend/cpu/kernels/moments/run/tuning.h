// The numbers of sums over places (`moments`) on the CPU: where they pay compared with a fused body that reads the rows several times, and how they are cut. AMD EPYC, `ingot bench --steps`
// (docs/performance-notes/convolutions_cpu.md, 0088: 25 to 55 GB/s instead of 2.5 to 7 for values with channels last); bounds between cases that differ by factors, none was measured by itself.
#pragma once
#include <cstdint>

namespace ingot::kernels::moments::tuning {

// Rows whose elements are not neighbours: the elements from which the kernel pays, and from which it does with many rows, each of which it keeps 32 bytes for.
inline constexpr int64_t spread_row = 16, spread_row_of_many = 256, many_rows = 1 << 18;
// Rows of neighbours: elements of a row on several axes (a group norm), of one of several rows, and of a single row. Shorter ones stay in the first-level cache, where a fused body reads them again.
inline constexpr int64_t group = 256, long_row = 4096, long_rows = 8, single_row = 65536;

// Elements from which workers divide the sums: waking them takes about as long as so many.
inline constexpr int64_t least_divided = 30000;
// Columns that are summed side by side, in sums of 8 bytes of a first-level cache; elements of a task's part, of a segment that is converted at once; parts at most; lanes of one pass for few
// columns.
inline constexpr int64_t max_columns = 4096, part_elements = 65536, segment_elements = 4096, max_parts = 1 << 16, lanes_of_pass = 64;

}  // namespace ingot::kernels::moments::tuning
