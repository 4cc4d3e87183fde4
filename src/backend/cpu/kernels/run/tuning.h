// The numbers of what kernels of the CPU share: ends of register tiles, and lists of taps. AMD EPYC and Intel Xeon, `python bench/kernels_cpu.py` and `python bench/convolutions.py`
// (docs/performance-notes/gemms_cpu.md, convolutions_cpu.md: 0053). Where a line names no other source it is an estimate.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::kernels::run_tuning {

// Vectors that go through a function or a body together: their chains of operations do not wait for one another.
inline constexpr int vectors_at_once = 4;
// Vectors of a row of a panel of B, and rows of the tallest register tile, AMX's two registers of 16.
inline constexpr int vectors_of_panel = 2, max_tile_rows = 32;
// Steps and operands of a body that runs in registers at the end of a tile: bounds of a worker's memory.
inline constexpr size_t max_end_steps = 48, max_end_operands = 12;
// Lists of taps that are kept for the lines of a volume, which cross the same borders for each plane (convolutions_cpu.md, 0078); taps of all, half a megabyte.
inline constexpr size_t max_tap_lists = 8, max_listed_taps = 1 << 15;

}  // namespace ingot::kernels::run_tuning
