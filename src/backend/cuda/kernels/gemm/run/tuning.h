// What GEMMs cost on CUDA: nanoseconds of a launch, and the longer of work and of reading B from memory. Work is in that of Hopper's tiles as their model says (work_of in gemm/tiles/run/tiles.h): rounds of
// tiles over the multiprocessors, steps along K in each, and an epilogue; for other GPUs in proportion to their peaks (GemmSizes::slower). The same numbers choose among the alternatives of a step with open sizes.
#pragma once
#include <cstdint>

namespace ingot::kernels::gemm::tuning {

// A GEMM between others in a CUDA graph, of ingot's kernels and of cuBLASLt, in nanoseconds; the library's work, of halves and of floats. H200, `python bench/offers.py --device cuda`: of 58 GEMMs of halves the
// tiles are 0.4 to 1 microsecond ahead up to 4 microseconds, and 0.02 to 0.3 behind over 6. Floats take as long, but less in the library where sums have more terms than these and columns fill its tiles of
// 128: 1 x 1 of 2048 to 512 channels 6.9 microseconds, by tiles 10.7.
inline constexpr double launch = 2000, launch_of_library = 2450, library = 0.9, library_of_floats = 1, library_of_long_sums = 0.8;
inline constexpr int64_t max_short_sum = 512;  // terms
// The work of tiles for such floats: 49 rows of 2048 to 512 channels take 10.7 microseconds, 196 of 1024 to 256 9.6, by the library 6.9 and 7.8 with the pass for a bias (the same machine and command).
inline constexpr double tiles_of_long_sums = 1.5;
// The library's work where it has no good tiles: halves of many rows whose columns fill tiles of 160 but not of 128 (8192 x 320 by 1.1 to 2 times: docs/performance-notes/gemms_cuda.md), and batches of few
// rows, or on several axes, of which it is called for one alone.
inline constexpr double library_behind = 1.1;
inline constexpr int64_t min_filling_rows = 8192, tile_columns = 128, wide_tile_columns = 160;  // rows; columns of tiles
inline constexpr int64_t max_batch_rows = 128;  // rows of a batch that the library's tiles do not fill
inline constexpr double tiles_one_row = 1.9;  // of floats: 63 of a tile's 64 rows are not used (not measured; less than `implicit`)

// Matrix instructions of single warps have half the library's rate; on Hopper, compared with instructions of warpgroups, less (not measured: so much that they are not timed against tiles; `python bench/offers.py --device cuda` times them).
inline constexpr double implicit = 2, implicit_where_tiles_exist = 2.5;
inline constexpr double implicit_batches = 0.95;  // batches that the library multiplies one by one (docs/performance-notes/gemms_cuda.md)

// One to eight rows of halves times a B along K are as fast as reading B; for so few rows the library takes half again as long, at two thirds of the bandwidth. H100 and H200:
// docs/performance-notes/gemms_cuda.md, `bench/llm.py`.
inline constexpr double library_reading = 1.5;

// Products of experts: warps that copy tiles themselves, and tiles that Hopper's copying unit fills. Up to this many rows of an expert, as the mean says, tiles have 16 rows, or 64; with more
// 128. With few rows only reading B counts (estimates: of the work in a tile that is not full, and of reading B again for each tile; `python bench/experts.py` measures them).
inline constexpr double ragged = 2, ragged_tiles = 1, ragged_tiles_of_16_rows = 3;
inline constexpr int64_t max_rows_of_16 = 12, max_rows_of_64 = 96;

// Images and volumes of few channels, each element of which is read once for all windows of a block: docs/performance-notes/convolutions_cuda.md.
inline constexpr double im2col = 0.9;
// Columns of results of volumes up to which that pays: they fill half of a tile (an estimate from counted bytes: 0073 there).
inline constexpr int64_t max_im2col_3d_columns = 32;

// Convolutions in groups and of few columns, by sums of single threads (estimates, of what the other ways copy or multiply for nothing; `python bench/offers.py --device cuda` measures them): terms of a sum of one thread, and of those that share it;
// products of a convolution without groups. Columns without groups, and of each group: more are enough for matrix instructions.
inline constexpr int64_t max_sum_of_group = 512, max_shared_sum = 1024, max_products_alone = int64_t{1} << 26;
inline constexpr int64_t max_columns_alone = 4, max_columns_of_group = 16;

// Their time: nanoseconds of a launch, and of each term that one thread adds after another; products in a nanosecond. H200, `python bench/offers.py --device cuda`, 103 convolutions of one to four columns and
// up to 600 terms, of which half are between 0.9 and 1.1 of their times.
inline constexpr double grouped_launch = 1000, grouped_term = 15, grouped_products = 4000;

// Bytes of K in a row or column of a tile, a row of a TMA box with its swizzle of 128 bytes; stages of tiles of single warps in shared memory. Threads of a block that adds up parts of K, and of one that
// multiplies a row, or a few (docs/performance-notes/gemms_cuda.md; not measured by themselves).
inline constexpr int row_bytes = 128, stages = 3, finish_threads = 256, row_threads = 256;
// Rows of most tiles, to which rows are merged; steps along K of a part that single warps multiply, at least: with 1 and 4 products
// of 16 to 30 rows by 1,000 to 4,096 terms take 0.97 to 1.03 of the time (H200, `python bench/constants.py --device cuda --only gpu_gemm`).
inline constexpr double rows_of_tile = 128;
inline constexpr int64_t min_steps_of_warps = 2;
// Bytes of each matrix of a concatenated B from which B is read part by part: the copy of small ones needs little memory, and the library multiplies by one at a time. Memory decides: by a
// copy 16 rows times gates of 8 MB take 0.66 of the time, 64 rows times 32 MB 0.81; 256 rows times parts of 2 MB take twice as long part by part (the same machine and command).
inline constexpr int64_t min_part_bytes = int64_t{8} << 20;
// Rows up to which the lower speed of single warps costs less than decoding B for the library: int8 of 2048 x 2048 decoded in the run takes 0.31 of the time with 512 rows and 0.40 with 1,024 (the same machine and
// command; fewer were not compared).
inline constexpr int64_t max_encoded_rows = 256;
// Elements of the longest row that a prologue computes, since every block computes it whole; matrices of a concatenated B, whose addresses are parameters of a kernel; indices of rows, and of K, that a map
// may have; gathered axes of an operand: bounds of the kernels.
inline constexpr int64_t max_prologue_row = 8192;
inline constexpr size_t max_parts_of_b = 128, max_map_indices = 4, max_gathered_axes = 16;

// Of the model by which the tiles choose their size and the parts of K, fitted on an H200 (docs/performance-notes/gemms_cuda.md): microseconds to begin, and to add up parts of K; sums that are
// added in a microsecond. The largest number of parts, and the fewest steps along K in each.
inline constexpr double launch_microseconds = 2, finish_microseconds = 2.4, parts_per_microsecond = 4e6;
inline constexpr int64_t max_splits = 16, min_turns_of_split = 4;
// Choices that the model finds at most this much slower are timed, and at most so many.
inline constexpr double max_timed_ratio = 2;
inline constexpr size_t max_timed_choices = 8;

}  // namespace ingot::kernels::gemm::tuning
