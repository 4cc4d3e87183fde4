// The numbers of the blocks of attention on the CPU: for caches of 32 KB and 1 MB a core, as an AMD EPYC and an Intel Xeon have. None was measured against others on its own; models with
// attention, and their peers, are in bench/results/ (`python bench/cpu.py --rows gpt2,distilbert,vit`).
#pragma once
#include <cstdint>

namespace ingot::kernels::attention::tuning {

// Rows of keys that a task reads together: with heads of 64, keys and values of a block take 256 KB of a second-level cache. Not measured.
inline constexpr int64_t key_block = 512;
// Rows of queries of a task, whole tiles of 14: keys and values are packed once for each, so long rows of queries have larger ones. Not measured.
inline constexpr int64_t query_block = 98, large_query_block = 196, rows_for_large = 768;
// With fewer batch elements than so many for each worker, queries are divided too: rows from which, rows at least, in multiples of rows of a tile with AVX2. Not measured.
inline constexpr int64_t batches_of_worker = 2, divided_rows = 16, least_rows = 8, rows_of_tile = 6;
// A head of a projection has rows of a few cache lines with a large stride, which hardware prefetchers miss: rows that are prefetched ahead, and rows of the next batch element. Not measured.
inline constexpr int64_t ahead = 16, max_ahead = 128;
// Rows of scores of a multiple of so many elements would share sets of a first-level cache (64 sets of 64 bytes, of which a row of 128 floats is an eighth): elements after each. Elements of a line that are
// converted at once, in 1 KB of a stack.
inline constexpr int64_t aliased_row = 128, row_gap = 16, line_elements = 256;
// Tasks of a worker; more of them if sequences have keys of their own (attention_queries/run/tuning.h).
inline constexpr int64_t tasks_of_worker = 8, tasks_of_uneven = 32;
// Sums of weights add so many elements in turns, and what is left in another order. With sums in order, rows of scores have a multiple, so that masked keys at the end change nothing.
inline constexpr int64_t summed_group = 64;
// Rows of keys that are packed at once: a group is in one page, so pages have as many or more, and a power of two.
inline constexpr int64_t rows_of_group = 4;
// Elements after packed keys and values that tiles may prefetch: a bound of memory.
inline constexpr int64_t read_beyond = 1024;
// Of costs, on an EPYC (1 to 32 queries, 64 heads of 64 keys and 16 of 2,048): nanoseconds of a float that is copied into a panel, and of an element of another type; of a weight.
inline constexpr double ns_of_packed_element = 0.19, ns_of_converted_element = 0.46, ns_of_weight = 0.5;

}  // namespace ingot::kernels::attention::tuning
