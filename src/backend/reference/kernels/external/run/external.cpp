#include "kernels/external/run/host_kernel.h"

namespace ingot::kernels {

std::span<const RunKernel> external_reference_kernels() { return {&external_host_kernel, 1}; }

}  // namespace ingot::kernels
