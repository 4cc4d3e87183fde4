// The numbers behind rows of windows that are copied in their own type; rates are the machine's (base/machine.h). AMD EPYC with AVX512_BF16, times of both offers by `bench/offers.py` (0125).
#pragma once
#include <cstdint>

namespace ingot::kernels::conv::rows_tuning {

// Cycles to copy a run of neighbours, and each vector of 64 bytes of it: estimates, not fitted. That they choose the faster offer is checked
// on an AMD EPYC with AVX512_BF16, one thread, by models compiled with `INGOT_OFFER=matmul` and `INGOT_OFFER=conv_rows` (docs/performance-notes/convolutions_cpu.md, 0125).
inline constexpr double copied_run = 12, copied_vector = 2;
// Cycles of a tile of products besides these, and of each vector of results: estimates likewise.
inline constexpr double tile = 60, vector_of_results = 1.5;
// Runs of a window: a bound of a plan's memory, not measured.
inline constexpr int64_t max_runs = 1 << 16;
// Elements after each copied row, so that rows do not share sets of a cache: 32 bytes or more.
inline constexpr int64_t apart = 16;
// Products, in the machine's wakes at its peak: a step with less is one task (docs/performance-notes/calls_and_threads.md). Tasks for each worker, so that a late one leaves little to wait for.
inline constexpr double least_wakes = 1.7;
inline constexpr int64_t tasks_of_worker = 4;

}  // namespace ingot::kernels::conv::rows_tuning
