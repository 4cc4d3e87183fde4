// The checks of a fourier step, for all backends.
#pragma once
#include "kernels/fourier/run/fourier_args.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

// RunKernel::load; the result is a FourierArgs. The second is of kernels that have one axis alone.
std::shared_ptr<const void> load_fourier(std::span<const std::byte> constants, size_t operands, size_t sizes);
std::shared_ptr<const void> load_fourier_of_one_axis(std::span<const std::byte> constants, size_t operands, size_t sizes);
// The length of the transform along the last axis. Error (format) if the operands do not fit, (invalid_input) if it has no elements.
int64_t check_fourier(const Call& call);
// How many transforms there are, after check_fourier.
int64_t count_of_transforms(const TensorRef&);

}  // namespace ingot::kernels
