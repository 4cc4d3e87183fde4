// How one row of halves is multiplied by a B along K; "gemm_skinny" shares the blocks. H100 and H200, `bench/llm.py` (docs/performance-notes/gemms_cuda.md); where a line names no measurement it is an estimate.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::kernels::gemm::gemv_tuning {

// Blocks of a multiprocessor; columns that a block multiplies at once; iterations of int8 in flight.
inline constexpr int blocks_of_multiprocessor = 2, columns_of_block = 8, iterations_in_flight = 2;
// Matrices of a concatenated B, whose addresses are parameters. Elements of the longest K whose row fits a block's shared memory as well, with two blocks.
inline constexpr size_t max_parts_of_b = 4;
inline constexpr int64_t max_row = 24576;
// Elements of a prologue's row that a thread keeps in registers, and registers for what it loads at once otherwise.
inline constexpr int64_t max_elements_of_thread = 32, loaded_registers = 32;
// Rows of "gemm_skinny", which read B once.
inline constexpr int64_t max_skinny_rows = 8;

}  // namespace ingot::kernels::gemm::gemv_tuning
