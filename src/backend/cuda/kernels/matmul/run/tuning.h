// The numbers of GEMMs by cuBLASLt. H100 and H200; the number is a bound, not measured.
#pragma once
#include <cstddef>

namespace ingot::kernels::matmul_cuda_tuning {

inline constexpr size_t max_parts_of_b = 201;  // matrices that B consists of, each a GEMM of its own: a bound of a step's operands

}  // namespace ingot::kernels::matmul_cuda_tuning
