// How the places of an index are put in order on a GPU. Estimates for an H200: a block reads 64 bytes of the index a cycle, twice, and a launch takes 2 us. `python bench/scatter.py` measures them.
#pragma once
#include <cstdint>

namespace ingot::kernels::order_segments_tuning {

inline constexpr int threads = 512;  // of a block
// Segments that a block sorts by in one pass, and buckets: each warp counts for itself, 16 KB of shared memory.
inline constexpr int keys = 256;
// Places up to which each block reads the whole index, in one launch instead of three: 48 K of them take a block 7 us. Blocks then: each reads all, so more of them make the caches busier, fewer have
// more segments each.
inline constexpr int64_t max_at_once = 48 << 10, blocks_at_once = 64;
// With more places: those of a tile, at least, and tiles, at most: each block reads the counts of all.
inline constexpr int64_t min_tile = 8 * threads, max_tiles = 264;

}  // namespace ingot::kernels::order_segments_tuning
