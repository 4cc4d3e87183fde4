// Facts of x86-64 CPUs, from Intel's Software Developer's Manual and Optimization Reference Manual. Nothing here is chosen.
#pragma once
#include <cstdint>

namespace ingot::backend::cpu::hardware {

inline constexpr int cache_line = 64;                            // bytes
inline constexpr int max_lanes = 16;                             // elements: floats of AVX-512
inline constexpr int matrix_rows = 16, matrix_row_bytes = 64;    // rows of an AMX register, and bytes of each
inline constexpr int64_t matrix_side = 2 * matrix_rows;          // rows and columns of four such registers of sums, and terms of bfloat16 in a row of one

}  // namespace ingot::backend::cpu::hardware
