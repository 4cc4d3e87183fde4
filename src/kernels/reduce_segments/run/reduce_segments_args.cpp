#include "kernels/reduce_segments/run/reduce_segments_args.h"

#include <algorithm>

#include "base/error.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view names[] = {"add", "mul", "min", "max"};

}  // namespace

ReduceSegmentsArgs::Kind kind_of_segments(std::string_view name) {
  return static_cast<ReduceSegmentsArgs::Kind>(std::find(std::begin(names), std::end(names), name) - std::begin(names));
}

std::vector<std::byte> serialise(const ReduceSegmentsArgs& a) { return {static_cast<std::byte>(a.kind)}; }

ReduceSegmentsArgs parse_reduce_segments(std::span<const std::byte> bytes) {
  if (bytes.size() != 1 || static_cast<size_t>(bytes[0]) >= std::size(names)) fail(Code::format, "a reduce_segments step has wrong constants");
  return {static_cast<ReduceSegmentsArgs::Kind>(bytes[0])};
}

std::shared_ptr<const void> load_reduce_segments(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<ReduceSegmentsArgs>(parse_reduce_segments(constants));
  if (operands != 4 || sizes != 0) fail(Code::format, "a reduce_segments step has {} operands and {} sizes", operands, sizes);
  return args;
}

void check_reduce_segments(const Call& call) {
  const TensorRef &x = call.operands[0], &order = call.operands[1], &ends = call.operands[2], &out = call.operands[3];
  auto is_index = [](const TensorRef& t) { return t.dtype == ir::DType::i64 && t.rank == 1; };
  const bool fits = ir::is_float(x.dtype) && out.dtype == x.dtype && x.rank >= 1 && out.rank == x.rank && is_index(order) && is_index(ends) && out.dims[0] == ends.dims[0] &&
                    std::equal(x.dims + 1, x.dims + x.rank, out.dims + 1);
  if (!fits) fail(Code::format, "the operands of a reduce_segments step do not fit");
}

}  // namespace ingot::kernels
