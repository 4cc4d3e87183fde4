// The "matmul_matrix" kernel: bfloat16 in AMX's matrix registers.
#include "backend/cpu/kernels/matmul/run/products.h"

namespace ingot::kernels {

namespace {

constexpr matmul::Algorithm algorithm{"matmul_matrix", way_of_matrix, matmul::cost_of_matrix};

}  // namespace

std::span<const RunKernel> matmul_matrix_cpu_kernels() {
  static constexpr RunKernel list[] = {matmul::kernel_of<algorithm>()};
  return list;
}

}  // namespace ingot::kernels
