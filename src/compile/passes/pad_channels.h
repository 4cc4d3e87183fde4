// What pad_output_channels and pad_input_channels share.
#pragma once
#include "ir/compose.h"

namespace ingot::compile {

// True if the rows of A are overlapping windows of a value: the GEMM is a convolution.
bool rows_are_windows(const ir::Graph&, const ir::Node& matmul);
// The next multiple of 8, which matrix instructions and vectors of half types need.
int64_t padded_channels(int64_t channels);
// `x` with more elements along an axis, which are 0.
ir::Handle with_zeros(const ir::Handle& x, size_t axis, int64_t count);

}  // namespace ingot::compile
