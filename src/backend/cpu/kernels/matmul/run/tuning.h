// The numbers of blocks and tasks of matrix products on the CPU; rates are the machine's (base/machine.h).
#pragma once
#include <cstdint>

namespace ingot::kernels::matmul::tuning {

// Work, in products that the machine's peak computes in one wake-up. A step with less than `least_wakes` is one task, since other workers take longer to start than to compute; tasks have at least
// `wakes_of_task`, so that a late worker is not waited for long. AMD EPYC (Zen 5), two threads, `ingot bench PLAN --steps --threads 2` (docs/performance-notes/calls_and_threads.md).
inline constexpr double least_wakes = 1, wakes_of_task = 17;
inline constexpr double max_imbalance = 0.05;  // a worker's rows above the mean, as a share, beyond which its rows end inside a tile (calls_and_threads.md, the same)
inline constexpr double batches_of_worker = 4;  // GEMMs of a batch for each worker, from which all workers stay busy
// As shares of the third-level cache's rate: reading panels of B that other workers read too, and packing B. AMD EPYC (Zen 5), `python bench/kernels_cpu.py`: 30 and 8 GB/s
// (docs/performance-notes/calls_and_threads.md).
inline constexpr double rate_of_l3 = 0.32, rate_of_packing = 0.085;
inline constexpr int64_t own_rows = 48;  // rows of a worker from which it pays to decode an int8 panel for them alone (docs/performance-notes/gemms_cpu.md)
inline constexpr int64_t copy_columns = 256;  // columns of a group of panels; rows of A that must be copied are copied once for each group (gemms_cpu.md)
// Bytes of B that a worker packs before it multiplies them: for few rows, which read each panel once, a quarter of a second-level cache of 1 MB; for more, all of it (gemms_cpu.md).
inline constexpr int64_t packed_for_narrow = 256 << 10, packed_for_wide = 1024 << 10;
inline constexpr int64_t least_packed_panels = 8;
// Rows of a panel that are packed at once, 4 KB of a first-level cache of 32 KB as halves: an estimate, which `python bench/offers.py --types bfloat16 --only batch` measures.
inline constexpr int64_t packed_rows = 64;

inline constexpr int64_t multiplications_of_task = 16384;  // of small products, in one task: an estimate, which `python bench/offers.py --only batch --threads 2` measures
// Elements from a channel to the next where an image is read through a map: in a first layer the few channels may be interleaved; farther apart each costs a cache line (convolutions_cpu.md).
inline constexpr int64_t nearest_channels = 4;
inline constexpr int64_t interpreted_columns = 16;  // with fewer columns, a body that reads inside a border costs more in this step than as a step of its own (convolutions_cpu.md)

// What the kernels of the family cost (docs/performance-notes/gemms_cpu.md, 0128). AMD EPYC (Zen 4, 3.69 GHz), one thread, `python bench/offers.py --types bfloat16 --form alone --only product`, and int8 weights of 768 and
// 3,072 columns by 1 to 64 rows of bfloat16. Cycles for a number of B: to widen a half type or int8 in the registers of a tile, once for so many rows (what the registers hold); to decode int8 for a
// block of rows: 768 x 768 by 4 rows take 43 microseconds by dot products, 55 by tiles; by 2 rows 34 both.
inline constexpr double widened_half = 0.07, widened_int8 = 0.1, decoded_number = 0.2;
inline constexpr int64_t widening_rows = 14;
// Of the time of reading B from memory, what matrix registers wait more than vectors, which read several places: an estimate by the 2 rows up to which dot products were faster on an Intel Xeon
// (gemms_cpu.md, 0028).
inline constexpr double wait_of_matrix = 0.35;
// Cycles to end a vector of results that are rounded to a half type: by tiles, in addition to what those of float32 take; by dot products; by matrix registers, whose sums go through memory. Cycles to configure
// these registers and to release them. Fitted to 82 sites of an Intel Xeon with AMX and 43 of an AMD EPYC (Zen 4) with AVX512_BF16, one thread, `python bench/offers.py --types bfloat16 --form alone`
// (docs/performance-notes/gemms_cpu.md: ends of half types).
inline constexpr double end_of_half = 21, end_of_dots = 20, end_of_matrix = 35, begun_matrix = 2200;
// Cycles by which a run of neighbours of a half type, which is widened, takes longer to copy than one of float32 (the same fit).
inline constexpr double widened_run = 12;
// Cycles to begin a product whose B is not packed, and a small product without panels; vectors of products at the machine's peak that take as long as one of a small product (the same machine,
// `--only batch`: 512 of 4 x 4 x 4 take 7 microseconds, in panels 70).
inline constexpr double begun_product = 400, small_product = 20, small_vector = 4;
// Rows for which kernels are chosen where results must not depend on their number: many.
inline constexpr int64_t rows_in_order = 256;

// Rows up to which a block is narrow: panels are read once and whole, and with int8 numbers read as they are (gemms_cpu.md).
inline constexpr int64_t narrow_rows = 32;
// Terms of a block of K with many rows, and of one sum: 126 rows of A by 384 are 190 KB of a second-level cache of 1 MB, and a panel of 32 columns by 384 is 48 KB. 192, 256, 320 and 512 terms change
// products of 49 and 196 rows by -10 to 3 % (docs/performance-notes/convolutions_cpu.md, 0072). A sum of float32 with at most so many is stored once.
inline constexpr int64_t k_block = 384;
// Rows of a block of A, of float64 and integers, and of a block for matrix registers; rows up to which such a block is narrow (gemms_cpu.md).
inline constexpr int64_t block_rows = 126, wide_block_rows = 48, matrix_block_rows = 256, matrix_narrow_rows = 128;
// Terms of a block of K in narrow blocks: of float32, and of types of half its size. In others: with matrix registers, and with dot products (gemms_cpu.md).
inline constexpr int64_t k_of_narrow_rows = 2048, k_of_narrow_bytes = 4096, k_of_matrix = 2048, k_of_dots = 1024;
// Rows up to which dot products are faster than matrix registers (gemms_cpu.md).
inline constexpr int64_t rows_of_dots = 2;
// If rows of A are multiples of a page apart, their lines share a set of the first-level cache: from `rows_of_aliases` rows on they are copied. Estimates.
inline constexpr int64_t bytes_of_aliases = 4096, rows_of_aliases = 4;
// Rows that read B together, about a block of A: B is read once for each such batch of rows. Not measured.
inline constexpr double rows_of_block = 128;
// Terms of one sum with few rows: longer ones are less accurate. Not measured by itself.
inline constexpr int64_t narrow_sum = 512;
// Columns of a block of the result that is not written in place, in a first-level cache together with A's rows; not measured.
inline constexpr int64_t columns_of_block = 512;

// Bytes after a panel that tiles may prefetch: the farthest of the distances below. A bound of memory.
inline constexpr int64_t read_ahead = 4096;
// Rows up to which tiles read several places of a panel of float32 at a time, and of narrower types (gemms_cpu.md, 0003: 28 GB/s instead of 24 with one place).
inline constexpr int max_rows_of_places = 3, max_rows_of_half_places = 2;
// Bytes ahead at each place that such tiles prefetch, of half types and int8 (31 GB/s instead of 26: tile.inc). Bytes ahead that other tiles prefetch, of half types; of float32 in rows of the panel.
inline constexpr int prefetched_half = 1024, prefetched_int8 = 2048, far_half = 4096, far_rows = 128;
// Rows up to which a tile of 4-bit numbers sums a group before it multiplies by its scale, and rows up to which panels of them are read as they are, not decoded first; bytes ahead that it
// prefetches: estimates, not timed.
inline constexpr int max_rows_of_group_sums = 2, prefetched_groups = 2048;
inline constexpr int64_t rows_of_int4 = 6;
// Rows of a panel that the loop of a tile takes at once (an estimate).
inline constexpr int unrolled_rows = 4;
// Rows and terms from which a tile prefetches the lines of its results: EPYC, MiniLM on 16 tokens takes 1.07 times as long if all tiles do (gemms_cpu.md).
inline constexpr int min_prefetched_rows = 12, min_prefetched_sum = 64;
// Rows of the largest tile of float64 and of integers, with AVX-512; half as many with less: what the registers hold.
inline constexpr int max_wide_rows = 6;
// Rows, columns and terms of matrices that are multiplied without panels, and elements of them that are widened at once, 8 KB of a first-level cache: estimates.
inline constexpr int64_t max_small = 16, widened_elements = 2048;

// Terms and columns of products whose B stays near: 64 KB as float32, in a second-level cache. Multiplications of a task of them, some 10 microseconds: estimates (docs/decisions/0152).
inline constexpr int64_t max_short_terms = 256, max_short_columns = 256, products_of_short_task = 1 << 20;
// What they take with matrix registers, in cycles: for a row and 16 columns, a step of up to 32 terms and the end; to begin a matrix of a batch; to pack a number of B. Estimates: on an Intel Xeon with AMX a row of 131,072 x 8 x 40 takes 6 ns, its page faults included (`slow_large.py`).
inline constexpr double short_matrix_step = 2.5, short_matrix_end = 6, begun_short_matrix = 300, packed_short = 0.4;

// In registers: vectors of products at the machine's peak that take as long as one; cycles to store a vector, and to begin a matrix of a batch: estimates (docs/decisions/0152).
inline constexpr double short_vector = 1.2, short_end = 2, begun_short = 40;

// How `ingot doctor --measure` measures: additions that wait for one another, rounds of products in registers, seconds that a worker waits for the others, and the share of the time for each number.
inline constexpr int64_t additions = 100000, rounds = 100000, rounds_of_limit = 1000000;
inline constexpr double patience = 0.001, share_of_number = 0.125;  // seconds; the rest are estimates of what a timing needs
// Bytes of the caches where the system does not tell (EPYC: 32 KB, 1 MB, 32 MB), and of memory, more than any last-level cache. Elements that are summed at once, and streams that a core reads at a
// time, since one prefetcher does not saturate the memory.
inline constexpr int64_t usual_l1 = 32 << 10, usual_l2 = 1 << 20, usual_l3 = 32 << 20, memory_bytes = 256 << 20;
inline constexpr int64_t summed_elements = 1024, streams = 4;

}  // namespace ingot::kernels::matmul::tuning
