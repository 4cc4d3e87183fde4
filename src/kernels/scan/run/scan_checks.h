// The checks of a scan step, for all backends.
#pragma once
#include "kernels/run/kernel.h"
#include "kernels/scan/run/scan_args.h"

namespace ingot::kernels {

// RunKernel::load; the result is a ScanArgs.
std::shared_ptr<const void> load_scan(std::span<const std::byte> constants, size_t operands, size_t sizes);
// Error (format) if the operands do not fit.
void check_scan(const Call& call);

}  // namespace ingot::kernels
