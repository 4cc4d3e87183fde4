#include "kernels/grid_sample/run/grid_sample_checks.h"

#include "base/error.h"

namespace ingot::kernels {

std::shared_ptr<const void> load_grid_sample(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<GridSampleArgs>(parse_grid_sample(constants));
  if (operands != 3 || sizes != 0 || args->axes != 2) fail(Code::format, "the operands of a grid_sample step do not fit");
  return args;
}

int channel_axis(const GridSampleArgs& args, const TensorRef& result) { return args.channels_last ? result.rank - 1 : 1; }

int axis_in_result(const GridSampleArgs& args, int axis) { return args.channels_last || axis == 0 ? axis : axis + 1; }

void check_grid_sample(const Call& call) {
  const auto& args = *static_cast<const GridSampleArgs*>(call.constants);
  const TensorRef &x = call.operands[0], &grid = call.operands[1], &to = call.operands[2];
  bool fits = x.rank == 4 && grid.rank >= 2 && grid.rank <= max_rank && to.rank == grid.rank && grid.dims[grid.rank - 1] == 2;
  fits = fits && x.dims[0] == grid.dims[0] && x.dims[0] == to.dims[0] && x.dims[1] == to.dims[channel_axis(args, to)];
  for (int axis = 1; fits && axis + 1 < grid.rank; ++axis) fits = grid.dims[axis] == to.dims[axis_in_result(args, axis)];
  if (!fits) fail(Code::format, "the operands of a grid_sample step do not fit");
  constexpr int64_t max_size = 1 << 24;  // places are f32, which has no larger odd numbers
  for (const int64_t size : {x.dims[2], x.dims[3]}) {
    if (size < 1 || size > max_size) fail(Code::invalid_input, "grid_sample: an axis of the image has {} elements; 1 to {} are possible", size, max_size);
  }
}

}  // namespace ingot::kernels
