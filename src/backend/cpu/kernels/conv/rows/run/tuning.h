// The numbers of rows of windows that are copied in their own type; rates are the machine's (base/machine.h). Costs are fitted to 82 sites of an Intel Xeon with AMX and 43 of an AMD EPYC (Zen 4) with
// AVX512_BF16, one thread, `python bench/offers.py --types bfloat16 --form alone`, 30 November 2026 (docs/performance-notes/gemms_cpu.md: ends of half types).
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::kernels::conv::rows_tuning {

// Cycles to copy a run of neighbours, and each vector of 64 bytes of it.
inline constexpr double copied_run = 7.3, copied_vector = 2;
// Bytes of a run that is copied by two overlapping vectors of at most 64 bytes; longer ones are left to memcpy.
inline constexpr size_t longest_inline_run = 128;
// Cycles to end a vector of results, which are rounded to a half type and stored where their columns may not be neighbours; by matrix registers.
inline constexpr double end_of_half = 57, end_of_matrix = 79;
// Cycles to pack an element of B, zeros included.
inline constexpr double packed_element = 3.8;
// Of float64: cycles of a tile besides its products, and of each vector of results.
inline constexpr double tile = 60, vector_of_results = 1.5;
// Runs of a window: a bound of a plan's memory.
inline constexpr int64_t max_runs = 1 << 16;
// Elements after each copied row, so that rows do not share sets of a cache: 32 bytes or more.
inline constexpr int64_t row_gap = 16;
// Products, in the machine's wakes at its peak: a step with less is one task (docs/performance-notes/calls_and_threads.md). Tasks for each worker, so that a late one leaves little to wait for.
inline constexpr double least_wakes = 1.7;
inline constexpr int64_t tasks_of_worker = 4;

}  // namespace ingot::kernels::conv::rows_tuning
