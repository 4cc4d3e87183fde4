// The kernels of the CPU backend: one list.
#include "backend/device.h"

namespace ingot::kernels {
#define INGOT_CPU_KERNELS(X) X(fused) X(matmul) X(matmul_pack) X(attention) X(scan) X(scatter) X(scatter_along) X(sort)
#define X(name) extern const backend::RunKernel name##_kernel;
INGOT_CPU_KERNELS(X)
#undef X
}  // namespace ingot::kernels

namespace ingot::backend {

const RunKernel* find_cpu_kernel(std::string_view name) {
  static const RunKernel* const list[] = {
#define X(name) &kernels::name##_kernel,
      INGOT_CPU_KERNELS(X)
#undef X
  };
  for (const RunKernel* k : list) {
    if (k->name == name) return k;
  }
  return nullptr;
}

}  // namespace ingot::backend
