// Where an order of rows pays, and how segments are put on threads. Estimates from times of an H200: sums by atomic operations take 13 ns for a thousand elements (200,000 rows of 128 floats: 334 us), an order
// of 200,000 rows some 50 us, once for all that use it. `python bench/scatter.py` measures both.
#pragma once
#include <cstdint>

namespace ingot::kernels::reduce_segments_tuning {

inline constexpr double min_rows = 4096, min_elements = 32;  // of a row
// Segments of a row: each is written, and read again where it is combined with what the scatter began with.
inline constexpr double max_segments = 2;

inline constexpr int threads = 256;  // of a block
inline constexpr int64_t max_group = 32;  // threads side by side in a row: a warp
inline constexpr int64_t part_rows = 256;  // rows that one group reads one after another, in a few hundred cycles each; longer segments are cut

}  // namespace ingot::kernels::reduce_segments_tuning
