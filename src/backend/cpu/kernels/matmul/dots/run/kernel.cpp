// The "matmul_dots" kernel: dot products of bfloat16 pairs.
#include "backend/cpu/kernels/matmul/run/products.h"

namespace ingot::kernels {

namespace {

constexpr matmul::Algorithm algorithm{"matmul_dots", way_of_dots, matmul::cost_of_dots};

}  // namespace

std::span<const RunKernel> matmul_dots_cpu_kernels() {
  static constexpr RunKernel list[] = {matmul::kernel_of<algorithm>()};
  return list;
}

}  // namespace ingot::kernels
