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

std::vector<std::byte> serialise(const ReduceSegmentsArgs& a) { return {static_cast<std::byte>(a.kind), std::byte{a.weighted}, std::byte{a.based}}; }

ReduceSegmentsArgs parse_reduce_segments(std::span<const std::byte> bytes) {
  const bool fits = bytes.size() == 3 && static_cast<size_t>(bytes[0]) < std::size(names) && static_cast<uint8_t>(bytes[1]) <= 1 && static_cast<uint8_t>(bytes[2]) <= 1;
  if (!fits || (bytes[1] == std::byte{1} && bytes[0] != std::byte{0})) fail(Code::format, "a reduce_segments step has wrong constants");
  return {static_cast<ReduceSegmentsArgs::Kind>(bytes[0]), bytes[1] == std::byte{1}, bytes[2] == std::byte{1}};
}

std::shared_ptr<const void> load_reduce_segments(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<ReduceSegmentsArgs>(parse_reduce_segments(constants));
  if (operands != args->out() + 1 || sizes != 0) fail(Code::format, "a reduce_segments step has {} operands and {} sizes", operands, sizes);
  return args;
}

void check_reduce_segments(const Call& call) {
  using Args = ReduceSegmentsArgs;
  const auto& args = *static_cast<const Args*>(call.constants);
  const TensorRef &x = call.operands[Args::x], &order = call.operands[Args::order], &ends = call.operands[Args::ends], &out = call.operands[args.out()];
  auto is_index = [](const TensorRef& t) { return t.dtype == ir::DType::i64 && t.rank == 1; };
  auto are_rows = [&](const TensorRef& t) { return t.dtype == x.dtype && t.rank == x.rank && std::equal(x.dims + 1, x.dims + x.rank, t.dims + 1); };
  bool fits = ir::is_float(x.dtype) && x.rank >= 1 && are_rows(out) && is_index(order) && is_index(ends) && out.dims[0] == ends.dims[0];
  if (fits && args.weighted) {
    const TensorRef& places = call.operands[Args::weight_order];
    fits = are_rows(call.operands[Args::weights]) && is_index(places) && places.dims[0] == order.dims[0];
  }
  if (fits && args.based) fits = are_rows(call.operands[args.base()]) && call.operands[args.base()].dims[0] == out.dims[0];
  if (!fits) fail(Code::format, "the operands of a reduce_segments step do not fit");
}

}  // namespace ingot::kernels
