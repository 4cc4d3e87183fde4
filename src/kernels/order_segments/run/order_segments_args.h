// Constants of the "order_segments" step: the places of an index in the order of what it says, and where each segment of them ends. ir/prim.def says how.
//
// Operands: index [N], order [N] (written), ends [S] (written), all i64, with any strides. No sizes. An index outside is an error.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/run/kernel.h"

namespace ingot::kernels {

struct OrderSegmentsArgs {
  bool wrap = false;  // negative indices count from the end
};
std::vector<std::byte> serialise(const OrderSegmentsArgs&);

// RunKernel::load; the result is an OrderSegmentsArgs.
std::shared_ptr<const void> load_order_segments(std::span<const std::byte> constants, size_t operands, size_t sizes);
// Error (format) if the operands do not fit.
void check_order_segments(const Call& call);

}  // namespace ingot::kernels
