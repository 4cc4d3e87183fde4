// "gemm_ragged_tiles": tiles of one expert's rows, which Hopper's copying unit fills.
#pragma once
#include "backend/cuda/kernels/gemm/ragged/run/ragged_args.h"

namespace ingot::kernels {

// Groups of four warps multiply 64 rows each; one more warp copies.
struct RaggedLargeTile {
  int rows, columns, stages, blocks;  // blocks: per multiprocessor
  int threads() const { return rows * 2 + 32; }
  int shared() const { return stages * (gemm_stage_bytes(rows, columns) + 16); }  // with two barriers for a stage
};
inline constexpr RaggedLargeTile ragged_large_tiles[] = {{64, 128, 4, 2}, {128, 128, 3, 2}};

}  // namespace ingot::kernels
