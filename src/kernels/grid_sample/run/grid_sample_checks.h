// The checks of a grid_sample step, for all backends.
#pragma once
#include "kernels/grid_sample/run/grid_sample_args.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

// RunKernel::load; the result is a GridSampleArgs of images of two axes.
std::shared_ptr<const void> load_grid_sample(std::span<const std::byte> constants, size_t operands, size_t sizes);
// Error (format) if the operands do not fit, (invalid_input) if an axis of the image has no place for each element. Element types are the backend's affair.
void check_grid_sample(const Call& call);

// The axis of the result that has the channels.
int channel_axis(const GridSampleArgs&, const TensorRef& result);
// The axis of the result for one of the grid's, of points.
int axis_in_result(const GridSampleArgs&, int axis);

}  // namespace ingot::kernels
