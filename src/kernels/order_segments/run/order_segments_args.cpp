#include "kernels/order_segments/run/order_segments_args.h"

#include <algorithm>

#include "base/error.h"

namespace ingot::kernels {

std::vector<std::byte> serialise(const OrderSegmentsArgs& a) { return {std::byte{a.wrap}}; }

std::shared_ptr<const void> load_order_segments(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  if (constants.size() != 1 || static_cast<uint8_t>(constants[0]) > 1) fail(Code::format, "an order_segments step has wrong constants");
  if (operands != 3 || sizes != 0) fail(Code::format, "an order_segments step has {} operands and {} sizes", operands, sizes);
  return std::make_shared<OrderSegmentsArgs>(OrderSegmentsArgs{constants[0] == std::byte{1}});
}

void check_order_segments(const Call& call) {
  const bool fits = std::all_of(call.operands.begin(), call.operands.end(), [](const TensorRef& t) { return t.dtype == ir::DType::i64 && t.rank == 1; });
  if (!fits || call.operands[0].dims[0] != call.operands[1].dims[0]) fail(Code::format, "the operands of an order_segments step do not fit");
}

}  // namespace ingot::kernels
