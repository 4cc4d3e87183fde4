// GEMMs whose A is read through the map by warps: for "gemm_implicit", and for every implementation where operands are not aligned.
#pragma once
#include "backend/cuda/kernels/gemm/run/gemm_call.h"

namespace ingot::kernels {

// Tiles of single warps.
struct WarpTile {
  int rows, columns, threads;
};
inline constexpr WarpTile warp_tiles[] = {{128, 128, 256}, {64, 64, 128}};

// What is accessed in vectors: all operands; all but A, whose elements are read one by one; none.
enum class Access : uint8_t { vectors, vectors_but_a, elements };
// Kernels: name_0.. for warp_tiles, name_one_1 (the smallest tile) if only A is unaligned, name_any_1 for unaligned operands; name_finish and name_any_finish add the partial sums of several blocks.
CudaLaunches through_map(const GemmCall&, Access);
// Adds what is launched if the operands' addresses are not aligned.
CudaLaunches with_any_address(CudaLaunches, const GemmCall&);
CudaLaunches with_any_address(CudaLaunches, CudaLaunches any);

}  // namespace ingot::kernels
