// How sorts are divided among threads on a GPU. H100 and H200, `python bench/operators.py` (docs/performance-notes/operators.md, 0086: keys of a tile); the numbers are estimates.
#pragma once
#include <cstdint>

namespace ingot::kernels::sort_cuda_tuning {

// Threads of a block, and elements of each, that sort a tile.
inline constexpr int threads = 256, items = 8;
inline constexpr int64_t tile = threads * items;
// A line that is shorter than a tile: a block of these threads, each with some elements.
struct Line {
  int threads, items;
};
inline constexpr Line lines[] = {{32, 4}, {64, 4}, {64, 8}, {128, 8}, {threads, items}};

}  // namespace ingot::kernels::sort_cuda_tuning
