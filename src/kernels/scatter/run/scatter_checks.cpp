#include "kernels/scatter/run/scatter_checks.h"

#include <algorithm>

#include "base/error.h"

namespace ingot::kernels {

std::shared_ptr<const void> load_scatter(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<ScatterArgs>(parse_scatter(constants));
  if (operands != args->axes.size() + 2 || sizes != 0) fail(Code::format, "a scatter step has {} operands for {} axes", operands, args->axes.size());
  return args;
}

std::shared_ptr<const void> load_scatter_along(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<ScatterArgs>(parse_scatter(constants));
  if (operands != 3 || args->axes.size() != 1 || sizes != 0) fail(Code::format, "a scatter_along step has {} operands", operands);
  return args;
}

bool scattered(const ScatterArgs& args, int axis) { return std::find(args.axes.begin(), args.axes.end(), axis) != args.axes.end(); }

void check_scatter(const Call& call) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &updates = call.operands[0], &out = call.operands.back(), &index = call.operands[1];
  int free_axes = out.rank - static_cast<int>(args.axes.size());
  bool fits = updates.dtype == out.dtype && !is_complex(out.dtype) && out.rank <= max_rank && updates.rank <= max_rank && free_axes >= 0 &&
              updates.rank == free_axes + index.rank && args.position <= free_axes;
  for (uint8_t a : args.axes) fits = fits && a < out.rank;
  for (size_t k = 0; k < args.axes.size(); ++k) {
    const TensorRef& x = call.operands[1 + k];
    fits = fits && x.dtype == ir::DType::i64 && x.rank == index.rank && std::equal(x.dims, x.dims + x.rank, index.dims);
  }
  for (int d = 0, rest = 0; fits && d < out.rank; ++d) {
    if (scattered(args, d)) continue;
    fits = updates.dims[rest < args.position ? rest : rest + index.rank] == out.dims[d];
    ++rest;
  }
  for (int d = 0; fits && d < index.rank; ++d) fits = updates.dims[args.position + d] == index.dims[d];
  if (!fits) fail(Code::format, "the operands of a scatter do not fit");
}

void check_scatter_along(const Call& call) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &index = call.operands[0], &updates = call.operands[1], &out = call.operands[2];
  bool fits = index.dtype == ir::DType::i64 && updates.dtype == out.dtype && !is_complex(out.dtype) && out.rank <= max_rank && index.rank == out.rank && updates.rank == out.rank &&
              args.axes[0] < std::max(out.rank, 1) && std::equal(index.dims, index.dims + index.rank, updates.dims);
  for (int d = 0; fits && d < out.rank; ++d) fits = d == args.axes[0] || index.dims[d] <= out.dims[d];
  if (!fits) fail(Code::format, "the operands of a scatter_along do not fit");
}

}  // namespace ingot::kernels
