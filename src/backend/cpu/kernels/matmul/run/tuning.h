// The numbers behind blocks and tasks of matrix products on the CPU; rates are the machine's (base/machine.h).
#pragma once
#include <cstdint>

namespace ingot::kernels::matmul::tuning {

// Of a task or a step, in the machine's wakes at its peak: with less, other workers take longer to start than to compute; a task as long as that leaves little to wait for when a worker is
// late. AMD EPYC (Zen 5), two threads, `ingot bench PLAN --steps --threads 2` (docs/performance-notes/calls_and_threads.md).
inline constexpr double least_wakes = 1, wakes_of_task = 17;
inline constexpr double most_uneven = 0.05;  // of rows: the share that a worker may have above the mean before its rows end inside a tile (calls_and_threads.md, the same)
inline constexpr double batches_of_worker = 4;  // GEMMs of a batch for each worker that keep all of them busy
// Of the third-level cache's rate, what panels of B come at while other workers read them too, and what B is packed at. AMD EPYC (Zen 5), `python bench/kernels_cpu.py`: 30 and 8 GB/s
// (docs/performance-notes/calls_and_threads.md).
inline constexpr double rate_of_l3 = 0.32, rate_of_packing = 0.085;
inline constexpr int64_t own_rows = 48;  // rows of a worker from which decoding an int8 panel for them alone pays (docs/performance-notes/gemms_cpu.md)
inline constexpr int64_t copy_columns = 256;  // of a group of panels, for which rows of A that must be copied are copied once (gemms_cpu.md)
// Bytes of B that a worker packs before it multiplies them: for few rows, which read each panel once, a quarter of a second-level cache of 1 MB; for more, all of it (gemms_cpu.md).
inline constexpr int64_t packed_for_few = 256 << 10, packed_for_many = 1024 << 10;
inline constexpr int64_t least_packed_panels = 8;

inline constexpr int64_t small_products = 8;  // products of small matrices, from which they go without panels (gemms_cpu.md)
// Elements from a channel to the next where an image is read through a map: in a first layer the few channels may be interleaved; farther apart each costs a cache line (convolutions_cpu.md).
inline constexpr int64_t nearest_channels = 4;
inline constexpr int64_t interpreted_columns = 16;  // columns under which a body that reads inside a border costs more in the step than a pass of its own (convolutions_cpu.md)

// Rows up to which a block is narrow: panels are read once and whole, and with int8 numbers read as they are; rows from which decoding int8 for matrix registers pays (gemms_cpu.md).
inline constexpr int64_t narrow_rows = 32, decoded_rows = 6;
// Terms of a block of K with many rows, and of one sum: 126 rows of A by 384 are 190 KB of a second-level cache of 1 MB, and a panel of 32 columns by 384 is 48 KB. 192, 256, 320 and 512 terms change
// products of 49 and 196 rows by -10 to 3 % (docs/performance-notes/convolutions_cpu.md, 0072). A sum of float32 with at most so many is stored once.
inline constexpr int64_t k_block = 384;
// Rows that read B together, about a block of A: for each batch of fewer rows B is read again. Not measured.
inline constexpr double rows_of_block = 128;
// Terms of one sum with few rows: longer ones are less accurate. Not measured by itself.
inline constexpr int64_t narrow_sum = 512;
// Columns of a block of the result that is not written in place, in a first-level cache beside A's rows; not measured.
inline constexpr int64_t columns_of_block = 512;

}  // namespace ingot::kernels::matmul::tuning
