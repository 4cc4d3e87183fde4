// The numbers of GEMMs by cuBLASLt. H100 and H200; the numbers are bounds of a plan.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::kernels::matmul_cuda_tuning {

inline constexpr uint8_t max_batch_axes = 20;   // axes of batches: a bound of a plan
inline constexpr size_t max_parts_of_b = 201;  // matrices that B consists of, each a GEMM of its own: a bound of a step's operands

}  // namespace ingot::kernels::matmul_cuda_tuning
