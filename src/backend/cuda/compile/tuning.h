// The numbers by which fused bodies are printed for CUDA. H100 and H200, `ingot bench --steps` (docs/performance-notes/fused_bodies.md); where a line names no measurement it is an estimate.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::backend::cuda::compile_tuning {

// Elements of a row that one thread keeps in registers; of the longest row of known length that one warp computes: with 1024, a block is 4 % faster.
inline constexpr int max_elements_of_thread = 32, warp_row = 512;
// Threads of a block that computes a row: with fewer, a multiprocessor is not filled. Threads of a block that copies a tile.
inline constexpr int min_row_threads = 128, tile_threads = 256;
// Threads of a block that computes a row of unknown length, or reads it again; elements for each thread from which more threads share a short strided row.
inline constexpr int block_threads = 512, min_row_of_lane = 64;
// Threads of a multiprocessor that short strided rows should fill before more threads share a row; threads that rows of known length should fill.
inline constexpr int64_t threads_of_columns = 1024, threads_of_rows = 2048;
// Units of a multiprocessor from which a thread takes several: eight blocks of 256 threads.
inline constexpr int64_t units_of_points = 8 * 256;
// Registers for loads that only later stages need: if they take no more, they are issued early.
inline constexpr int early_registers = 32;
// Bytes of the elements of transposed operands at one place: tiles of 32 x 33 in the 48 KB that a block has without asking.
inline constexpr size_t max_transposed_bytes = 32;
// Loads with an index for each element, from which a thread reads single elements: neighbours that it reads one after another would be read at other times, when they are no longer in the cache.
inline constexpr int64_t min_gathered_loads = 4;

// Bytes of NVRTC's log in a message: a bound of text.
inline constexpr size_t log_excerpt = 2000;
// Units of code that one call of NVRTC compiles; with more units than so many, in larger calls, since each call reads the prelude again: estimates.
inline constexpr size_t units_of_call = 4, units_of_large_call = 8, min_units_for_large_calls = 32;

}  // namespace ingot::backend::cuda::compile_tuning
