// The numbers behind the blocks of fused bodies on the CPU: AMD EPYC and Intel Xeon, `ingot bench --steps` (docs/performance-notes/fused_bodies.md). Where a line names no other source it is an estimate,
// of cases that differ by factors.
#pragma once
#include <cstdint>

namespace ingot::kernels::fused_tuning {

// Of the choice of an axis that blocks run along: memory should be read in order, and blocks should be long. Only differences between axes matter.
// Nanoseconds to start an instruction of a block; a copy, or an instruction of a row body. Of an element: to transpose it first, to copy it line by line.
inline constexpr double per_block = 12, per_row = 3, staged = 0.25, of_line = 0.25;
inline constexpr int64_t cache_line = 16;  // elements of 4 bytes: a row that steps over more is read a cache line for each
// Elements of rows that are transposed in tiles: the shortest; the longest that are computed together; the longest along which something is stored. Rows of which there must be as many.
inline constexpr int64_t shortest_row = 4, longest_joined = 12, longest_stored = 48, least_rows = 16;

inline constexpr int64_t longest_turned = 128;  // elements: the longest of such rows that are only reduced

// Elements of a block: each of its values takes 2 KB of a first-level cache of 32 KB; with few values four times as many. Bytes at least, of narrow integers, for which an instruction is short.
inline constexpr int64_t block_elements = 512, few_values = 4, block_bytes = 4096;
// Elements of a line that is joined with others in a block, since starting an instruction takes longer than so many; and if no line is copied for that.
inline constexpr int64_t longest_line = 128, longest_solid_line = 1024;
// An operand is transposed in tiles if its elements are so far apart, and there are so many rows and columns. Elements of a tile, which stays in a first-level cache; of a longest row that is looked up.
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

}  // namespace ingot::kernels::fused_tuning
