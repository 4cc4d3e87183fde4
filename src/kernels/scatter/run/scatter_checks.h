// The checks of scatter steps, for all backends.
#pragma once
#include "kernels/run/kernel.h"
#include "kernels/scatter/run/scatter_args.h"

namespace ingot::kernels {

// RunKernel::load; the result is a ScatterArgs.
std::shared_ptr<const void> load_scatter(std::span<const std::byte> constants, size_t operands, size_t sizes);
std::shared_ptr<const void> load_scatter_along(std::span<const std::byte> constants, size_t operands, size_t sizes);
// Error (format) if the operands do not fit.
void check_scatter(const Call& call);
void check_scatter_along(const Call& call);
// True if indices select along this axis of the result.
bool scattered(const ScatterArgs& args, int axis);

}  // namespace ingot::kernels
