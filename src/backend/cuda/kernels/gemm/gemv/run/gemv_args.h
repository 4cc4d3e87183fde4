// "gemm_gemv": one row of halves times a B that is contiguous along K. "gemm_skinny" shares its blocks.
#pragma once
#include "backend/cuda/kernels/gemm/gemv/run/tuning.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"
#include "backend/cuda/run/hardware.h"

namespace ingot::kernels {

inline constexpr int gemv_blocks = gemm::gemv_tuning::blocks_of_multiprocessor;
// Bytes per half of gated columns, in addition to the prologue's row: sums of two groups of columns.
inline constexpr int gemv_shared = static_cast<int>(sizeof(float[2][gemv_threads / backend::cuda::hardware::warp][gemm::gemv_tuning::columns_of_block]));
// Bytes of B in int8 that are in flight.
inline constexpr int gemv_ring = gemm::gemv_tuning::iterations_in_flight * gemm::gemv_tuning::columns_of_block * backend::cuda::hardware::vector_bytes * gemv_threads;

}  // namespace ingot::kernels
