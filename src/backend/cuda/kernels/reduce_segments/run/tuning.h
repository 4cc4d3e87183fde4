// Where an order of rows pays, and how segments are put on threads. Estimates from times of an H200: sums by atomic operations take 13 ns for a thousand elements (200,000 rows of 128 floats: 334 us), an order
// of 200,000 rows some 50 us, once for all that use it. `python bench/scatter.py` measures both.
#pragma once
#include <cstdint>

namespace ingot::kernels::reduce_segments_tuning {

inline constexpr double min_rows = 4096, min_elements = 32;  // of a row
// Segments of a row: each is written, and read again where it is combined with what the scatter began with.
inline constexpr double max_segments = 2;

inline constexpr int threads = 128;  // of a block: of 92 registers each, 5 blocks fit a multiprocessor (NVRTC 13.0, sm_90; with 256 threads 2)
inline constexpr int64_t max_group = 32;  // threads side by side in a row: a warp
inline constexpr int64_t part_rows = 256;  // rows that one group reads in turn, in a few hundred cycles for eight; longer segments are cut

}  // namespace ingot::kernels::reduce_segments_tuning
