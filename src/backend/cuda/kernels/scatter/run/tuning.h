// How scatters are divided among threads on a GPU. H100 and H200, `python bench/operators.py` (docs/performance-notes/operators.md, 0086); where a line names no measurement it is an estimate.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::kernels::scatter_cuda_tuning {

// Indices of a scatter: a bound of the kernels' parameters.
inline constexpr size_t max_indices = 8;
// Threads of a block; destinations that a block keeps in shared memory, 16 or 24 KB, and the threads that add to them (0086: few destinations).
inline constexpr int threads = 256, max_shared_destinations = 2048, shared_threads = 512;
// Updates of each thread that adds to shared memory, at least; blocks of each multiprocessor; updates of a destination, at least: with fewer, writing the block's results costs more than it saves.
inline constexpr int64_t updates_of_thread = 8, blocks_of_multiprocessor = 4, min_updates_of_destination = 2;
// Destinations that a block with lines keeps in shared memory: 12 bytes each, 20 for doubles, of 48 KB (an estimate: `python bench/scatter.py`).
inline constexpr int max_line_places = 2048;
// Destinations of an update up to which sums of floats are added as integers: with more, clearing and finishing them cost as much as sorting (0086).
inline constexpr int64_t max_places_of_update = 4;
// Points up to which each looks for later ones of its destination, in one launch instead of two and a sort (an estimate).
inline constexpr int64_t max_few_points = 64;
static_assert(2 * max_few_points <= threads, "a block keeps the keys of its points and of two lines that it shares");
// Updates of a chunk that one thread adds up, at least, and threads of all chunks: as many as keep a GPU busy, since each has two numbers in scratch.
inline constexpr int64_t min_chunk = 32, max_chunk_threads = int64_t{1} << 19;

}  // namespace ingot::kernels::scatter_cuda_tuning
