// The numbers by which a fused body chooses the axis that its blocks run along: memory should be read in order, and blocks should be long. AMD EPYC and Intel Xeon, `ingot bench --steps`
// (docs/performance-notes/fused_bodies.md); estimates of nanoseconds an element, of which only differences between axes matter.
#pragma once
#include <cstdint>

namespace ingot::kernels::fused_tuning {

// Nanoseconds to start an instruction of a block; a copy, or an instruction of a row body. Of an element: to transpose it first, to copy it line by line.
inline constexpr double per_block = 12, per_row = 3, staged = 0.25, of_line = 0.25;
inline constexpr int64_t cache_line = 16;  // elements of 4 bytes: a row that steps over more is read a cache line for each
// Elements of rows that are transposed in tiles: the shortest; the longest that are computed together; the longest along which something is stored. Rows of which there must be as many.
inline constexpr int64_t shortest_row = 4, longest_joined = 12, longest_stored = 48, least_rows = 16;

}  // namespace ingot::kernels::fused_tuning
