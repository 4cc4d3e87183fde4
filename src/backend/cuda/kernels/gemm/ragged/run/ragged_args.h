// Products of experts: what their kernels have after the parameters of all GEMMs, and their tiles.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernels/gemm/run/gemm_call.h"

// An end of 4 or 8 bytes for each expert, and the elements from one matrix to the next.
#define INGOT_CUDA_EXPERTS \
  struct Experts { \
    unsigned long ends; \
    long stride; \
    int count, bytes; \
  };

namespace ingot::kernels {

INGOT_CUDA_EXPERTS

// Of a call: adds them to a launch's parameters.
Experts experts_of(const GemmCall&);
GemmLaunches::Append append_experts(const GemmCall&);
// The most tiles of so many rows: each expert has at most one that is not full, and so have the rows after the last end.
int64_t tiles_of_experts(const GemmCall&, int64_t rows);
// The rows of an expert, rounded up: their mean is all that is known before the ends are computed.
int64_t mean_rows(int64_t rows, int64_t experts);

// A tile of one expert's rows. Few rows are read by matrix instructions of single warps, whose tiles have 16; more on Hopper by groups of warps, with 64 each.
struct RaggedTile {
  int rows, columns, stages;
  // The part of a warp, if it multiplies alone. Gated, it has columns of both halves.
  int warp_rows(bool gated) const { return rows == 16 ? 16 : gated ? 32 : 64; }
  int warp_columns(bool gated) const { return gated ? 64 : 32; }
  int threads(bool gated) const { return rows / warp_rows(gated) * (columns / warp_columns(gated)) * 32; }
  int shared() const { return stages * gemm_row_bytes * (rows + columns); }
};
inline constexpr RaggedTile ragged_warp_tiles[] = {{16, 128, 4}, {64, 128, 3}, {128, 128, 3}};
inline constexpr const RaggedTile& any_address_tile = ragged_warp_tiles[1];  // for operands at any address

}  // namespace ingot::kernels
