// The checks of a sort step, for all backends.
#pragma once
#include "kernels/run/kernel.h"
#include "kernels/sort/run/sort_args.h"

namespace ingot::kernels {

// RunKernel::load; the result is a SortArgs.
std::shared_ptr<const void> load_sort(std::span<const std::byte> constants, size_t operands, size_t sizes);
// Error (format) if the operands do not fit.
void check_sort(const Call& call);

}  // namespace ingot::kernels
