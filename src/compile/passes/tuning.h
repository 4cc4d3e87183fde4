// The numbers by which passes decide what pays; rates are the target's (base/machine.h).
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::compile::tuning {

// Reductions in parts (split_reductions). Elements of a block that is worth cutting, and of a part; of columns side by side so many times as many. A device is idle that wants at least so many times
// the blocks, and parts must give at least so many times the rows. H200, `python bench/operators.py` (docs/performance-notes/operators.md, 0086); bounds between cases that differ by factors.
inline constexpr int64_t min_row = 16384, min_part = 512, column_factor = 4, idle_factor = 8, min_gain = 4;
// Elements of the longest row that one kernel reduces and reads again. Not measured by itself.
inline constexpr int64_t max_row_read_again = 1 << 19;
inline constexpr int64_t columns_of_block = 32;  // columns side by side that a block reduces together (operators.md, 0086: "32 columns side by side are one block")
// Elements of a scatter's place: operations that compute it, and reads of an element of the gather that takes its place. Bounds of compile time, not measured.
inline constexpr int max_operations = 64;
inline constexpr int64_t max_taps = 64;
// Values that are looked at to find whether a result is broadcast to longer rows again, in elements of a list: a bound of compile time, not measured. With more, it counts as broadcast.
inline constexpr size_t max_readers = 64;
// Columns of images are padded to a multiple of what kernels for halves read at once, 16 bytes; with fewer columns more than half would be zeros, and there are kernels of their own: an estimate.
inline constexpr int64_t channels_read_at_once = 8, min_channels = 12;

}  // namespace ingot::compile::tuning
