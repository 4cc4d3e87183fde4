// How rows are multiplied by packed weights. H200, `test_backend_cuda`. An estimate where a line names no measurement; docs/decisions/0154-packed-weights-on-a-gpu.md has what was measured.
#pragma once
#include <cstdint>

namespace ingot::kernels::gemm::packed_tuning {

// An estimate. Columns of a panel, which are the rows of a matrix instruction; numbers of a column in a chunk, those of the largest group.
inline constexpr int64_t columns_of_panel = 16, depth_of_chunk = 128;

// An estimate. Tiles of eight rows of a block: few for one to eight rows, of halves; more for up to 32.
inline constexpr int few_tiles = 1, more_tiles = 4, rows_of_tile = 8;
// An estimate. Halves of more rows than this are multiplied by a B that is decoded before: a block would read B once for each 32 rows.
inline constexpr int64_t max_rows_in_flight = 32;
// An estimate. Blocks of a multiprocessor, if their shared memory lets them.
inline constexpr int blocks_of_multiprocessor = 2;
// An estimate. Bytes of a row in shared memory, at most: beside it are the sums of a block. Of Hopper, and of GPUs whose blocks have 99 KiB.
inline constexpr int64_t max_row_bytes_of_hopper = int64_t{128} << 10, max_row_bytes = int64_t{64} << 10;

}  // namespace ingot::kernels::gemm::packed_tuning
