// The checks of a small_matrix step, for all backends.
#pragma once
#include "kernels/run/kernel.h"
#include "kernels/small_matrix/run/small_matrix_args.h"

namespace ingot::kernels {

// RunKernel::load; the result is a SmallMatrixArgs.
std::shared_ptr<const void> load_small_matrix(std::span<const std::byte> constants, size_t operands, size_t sizes);
// Error (format) if the operands do not fit.
void check_small_matrix(const Call& call);

// How many of an operand's axes are a matrix's: 2, 1 (pivots) or 0 (one number).
int matrix_axes(const SmallMatrixArgs&, size_t operand);
// How many matrices there are, after check_small_matrix.
int64_t count_of_matrices(const TensorRef& a);

}  // namespace ingot::kernels
