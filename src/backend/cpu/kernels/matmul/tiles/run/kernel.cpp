// The "matmul" kernel: register tiles that accumulate in float32, doubles or integers, and widen half types and int8 on the way.
#include "backend/cpu/kernels/matmul/run/pack.h"
#include "backend/cpu/kernels/matmul/run/products.h"

namespace ingot::kernels {

namespace {

constexpr matmul::Algorithm algorithm{"matmul", [](const Operands& o) { return std::optional(way_of_tiles(o)); }, matmul::cost_of_tiles};

}  // namespace

std::span<const RunKernel> matmul_cpu_kernels() {
  static const RunKernel list[] = {matmul::kernel_of<algorithm>(), matmul_pack_kernel, matmul_pack_groups_kernel};
  return list;
}

}  // namespace ingot::kernels
