// The numbers of the blocks of fused bodies on the CPU: AMD EPYC and Intel Xeon, `ingot bench --steps` (docs/performance-notes/fused_bodies.md). Where a line names no other source: an Intel Xeon with AMX,
// `python bench/constants.py --only fused` (docs/performance-notes/evidence.md, numbers beside others): half of it and twice of it are not faster on average.
#pragma once
#include <cstdint>

namespace ingot::kernels::fused_tuning {

// Of the choice of an axis that blocks run along: memory should be read in order, and blocks should be long. Only differences between axes matter.
// Nanoseconds to start an instruction of a block; a copy, or an instruction of a row body. Of an element: to transpose it first, to copy it line by line.
inline constexpr double per_block = 12, per_row = 3, staged = 0.25, of_line = 0.25;
inline constexpr int64_t cache_line = 16;  // elements of 4 bytes: a row that steps over more is read a cache line for each
// Elements of rows that are transposed in tiles: the shortest; the longest that are computed together; the longest along which something is stored. Such rows that there must be, at least.
inline constexpr int64_t shortest_row = 4, longest_joined = 12, longest_stored = 48, min_rows = 16;

inline constexpr int64_t longest_transposed = 128;  // elements: the longest of such rows that are only reduced

// Elements of a block: each of its values takes 2 KB of a first-level cache of 32 KB; where there is one value at most, four times as many, and with few, twice as many. Bytes at least, of narrow
// integers, for which an instruction is short. What is in memory alone takes no cache: as many bytes as make the start of an instruction (80 ns with its block on an EPYC) count for nothing.
inline constexpr int64_t block_elements = 512, blocks_of_one_value = 4, blocks_of_few_values = 2, max_few_values = 3, block_bytes = 4096, bytes_in_memory = 32768;
// Elements of a line that is joined with others in a block, since starting an instruction takes longer than so many; and if no line is copied for that.
inline constexpr int64_t longest_line = 128, longest_solid_line = 1024;
// An operand is transposed in tiles from this stride, and from these numbers of rows and columns, on. Elements of a tile, which stays in a first-level cache; of a longest row that is looked up.
inline constexpr int64_t staged_stride = 8, staged_rows = 4, staged_columns = 16, staged_elements = 8192, longest_looked_up = 512;
// Elements of a block that is transposed: rows and columns, 16 KB of either memory.
inline constexpr int64_t transposed_rows = 32, transposed_columns = 64;
// Sums over places in parts, which do not depend on threads: places of a part (an image of 7 x 7), parts at most, elements from which it pays.
inline constexpr int64_t places_of_part = 49, max_parts = 16, elements_in_parts = 16384;
// Elements of a part of a long row that is copied by several threads.
inline constexpr int64_t copied_part = 4096;
// Bytes of a copy that one thread makes sooner than others are started: 3 microseconds of memory (docs/performance-notes/calls_and_threads.md).
inline constexpr int64_t copied_alone = 1 << 16;
// Parts of a program that are computed once and held: bytes of all; elements of one that is computed when the program is cut.
inline constexpr int64_t max_held_bytes = 8 << 20, max_known_elements = 1 << 15;

// Blocks go through buffers on the stack, of 1 to 8 KB of a first-level cache of 32 KB: elements that are converted by way of 32 bits; widened to 64 bits; read at computed offsets; rows that are
// summed, or copied, from a list of places. Not measured by themselves.
inline constexpr int64_t converted_elements = 1024, widened_elements = 512, gathered_elements = 256, listed_rows = 64, copied_rows = 128;
// Elements of a loop of fixed length, which the compiler vectorises (fused_bodies.md, 0081: one loop of each operation).
inline constexpr int64_t loop_elements = 64;
// Elements that are added up in vectors of float32 before their sum is added in double (EPYC, 1 M floats: 512 take 1.3 times eager's time, 1,024 less); factors that are multiplied at once, two vectors of double.
inline constexpr int64_t summed_elements = 1024, multiplied_at_once = 16;
// Rows that are read at once where columns are summed: so many cache lines are in flight, and the first-level cache holds them. Rows that are looked up are fetched so many rows before.
inline constexpr int64_t rows_summed_at_once = 16, rows_ahead = 6;
// Bytes of a row that is copied in vectors where it is; more are left to memcpy. Bytes of a row behind a gap of which the first are fetched: EPYC (Zen 4), 2,048 rows of 8,164 bytes,
// 8,192 apart, take 1.31 ms with it and 1.37 without; 16,384 rows of 64 bytes, 1,024 apart, 50 us with it and 41 without.
inline constexpr int64_t max_inline_copy = 16384, far_row = 1024;
// Elements of a part of a long row that is reduced in parts (fused_bodies.md, 0081: rows of 16,384 elements or more).
inline constexpr int64_t part_of_row = 8192;
// Elements of the longest row that is reduced together with others, and of all rows of such a block; of all rows that are reduced where they are in memory.
inline constexpr int64_t longest_row_of_block = 1024, elements_of_rows = 2048, elements_in_memory = 32768;
// Columns of a row that runs all instructions in registers: for longer rows a pass of each instruction is as fast (docs/performance-notes/convolutions_cpu.md, 0053). Rows that run together.
inline constexpr int64_t longest_row_body = 128;
inline constexpr int rows_at_once = 4;
// Steps, operands, axes and indices of such a row: bounds of a worker's memory.
inline constexpr size_t max_row_steps = 64, max_row_operands = 24, max_row_axes = 16, max_row_indices = 16;
// Elements of an axis whose places are listed when a copy is bound: a bound of a plan's memory.
inline constexpr int64_t max_listed_places = 1 << 16;
// Rows and columns of a tile of a transposed operand, 16 KB; operands of a step that has such tiles, a bound of a worker's memory.
inline constexpr int64_t staged_tile_rows = 16, staged_tile_columns = 256;
inline constexpr int max_staged_operands = 32;
// Nanoseconds of an element that is read right after its neighbour, within some elements of it, and farther away; and those elements: a few lines of a cache.
inline constexpr double ns_of_neighbour = 0.1, ns_of_near = 0.6, ns_of_far = 1.5;
inline constexpr int64_t near_elements = 16;
// Share of its cost that counts for the last axis, in whose order results are mostly stored.
inline constexpr double share_of_last_axis = 0.8;
// Operations on elements from which a step is divided among workers: they take about as long to start. A single row, or one that is reduced, is divided only if it pays by itself (`--only divided`,
// two threads: with half and twice the first 1.04 times as long, with half and twice the second 0.96 and 1.05).
inline constexpr int64_t least_divided = 10000, least_divided_row = 30000;
// Operations from which a part of a body has a loop of its own: starting a loop takes about as long as so many: with 4,000 the problems take 1.3 times as long.
inline constexpr int64_t least_of_part = 2000;
// Elements of a block of many lines, or of a row that is only reduced; bytes of a reduced row's values that stay in a second-level cache while all its stages read them.
inline constexpr int64_t elements_of_lines = 2048, bytes_of_whole_row = 256 << 10;
// Radians up to which sines are computed in vectors: by then n times 33 bits of pi / 2 has 53 bits (fused_bodies.md, 0081).
inline constexpr double max_angle = 1000000;

}  // namespace ingot::kernels::fused_tuning
