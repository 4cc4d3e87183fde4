// Elements of images at given places on the CPU: blocks of points, each with all its channels.
#include <algorithm>

#include "backend/cpu/kernels/grid_sample/run/block_grid_sample.h"
#include "backend/cpu/kernels/grid_sample/run/tuning.h"
#include "backend/cpu/run/isa.h"
#include "base/error.h"
#include "kernels/grid_sample/run/grid_sample_checks.h"

namespace ingot::kernels {

namespace {

const GridSampleOps& grid_sample_ops() {
  static const GridSampleOps& chosen = INGOT_TABLES(grid_sample_ops).best();
  return chosen;
}

// For one set of sizes.
struct SamplePlan {
  void (*run)(const SampleBlock&) = nullptr;
  int64_t block = 0;                 // points at once
  int64_t tasks = 1;
  int64_t lines = 1, length = 1;     // of points: of all images; points of each, which are as far from one another
  int64_t lines_of_image = 1;
  int inner = 0;                     // how many of the last axes of points make a line
  bool zeros = false;                // a pixel of zeros is read outside
};

const GridSampleArgs& args_of(const Call& call) { return *static_cast<const GridSampleArgs*>(call.constants); }

// True if the axis and the next one are one in memory, in the grid and in the result.
bool continues(const Call& call, int axis) {
  const TensorRef &grid = call.operands[1], &to = call.operands[2];
  const int in_result = axis_in_result(args_of(call), axis);
  return grid.strides[axis] == grid.strides[axis + 1] * grid.dims[axis + 1] && to.strides[in_result] == to.strides[in_result + 1] * to.dims[in_result + 1];
}

void check_operands(const Call& call) {
  for (const TensorRef& t : call.operands) {
    if (t.dtype != ir::DType::f32) fail(Code::format, "the operands of a grid_sample step do not fit");
  }
  check_grid_sample(call);
}

Resolved resolve(const Call& call) {
  check_operands(call);
  const TensorRef &x = call.operands[0], &grid = call.operands[1];
  const auto mode = args_of(call).mode;
  const GridSampleOps& ops = grid_sample_ops();
  auto plan = std::make_shared<SamplePlan>();
  const bool together = x.strides[1] == 1 && x.dims[1] >= ops.lanes;  // the channels of a pixel
  plan->run = together ? ops.pixels : mode == GridSampleArgs::Mode::linear && x.strides[3] == 1 && x.dims[3] >= 2 ? ops.pairs : ops.elements;
  plan->zeros = together;
  const int axes = grid.rank - 2;
  plan->inner = axes == 0 ? 0 : 1;
  while (plan->inner < axes && continues(call, axes - plan->inner)) ++plan->inner;
  for (int axis = 1; axis <= axes; ++axis) (axis <= axes - plan->inner ? plan->lines_of_image : plan->length) *= grid.dims[axis];
  plan->lines = plan->lines_of_image * x.dims[0];
  const int64_t wanted = std::clamp<int64_t>(numel(call.operands[2]) / grid_sample_tuning::task_elements, 1, 4 * call.workers->count());
  const int64_t share = (plan->lines * plan->length / wanted + ops.lanes - 1) / ops.lanes * ops.lanes;
  plan->block = std::clamp<int64_t>(share, ops.lanes, points_at_once(mode == GridSampleArgs::Mode::nearest ? 1 : mode == GridSampleArgs::Mode::linear ? 2 : 4));
  plan->tasks = std::clamp<int64_t>(plan->lines * ((plan->length + plan->block - 1) / plan->block), 1, wanted);
  return {together ? static_cast<size_t>(x.dims[1]) * sizeof(float) : 0, plan};
}

void run(const Call& call) {
  const auto& plan = *static_cast<const SamplePlan*>(call.prepared);
  const TensorRef &x = call.operands[0], &grid = call.operands[1], &to = call.operands[2];
  const int axes = grid.rank - 2, outer = axes - plan.inner;
  SampleBlock whole;
  whole.args = &args_of(call);
  for (int axis : {0, 1}) {
    whole.size[axis] = x.dims[2 + axis];
    whole.step[axis] = x.strides[2 + axis];
  }
  whole.channels = x.dims[1];
  whole.channel_step = x.strides[1];
  if (plan.zeros) {
    whole.zeros = reinterpret_cast<const float*>(call.scratch);
    std::fill_n(reinterpret_cast<float*>(call.scratch), x.dims[1], 0.0f);
  }
  whole.grid_axis_step = grid.strides[grid.rank - 1];
  whole.grid_step = plan.inner == 0 ? 0 : grid.strides[axes];
  whole.to_step = plan.inner == 0 ? 0 : to.strides[axis_in_result(args_of(call), axes)];
  whole.to_channel_step = to.strides[channel_axis(args_of(call), to)];
  const int64_t blocks = (plan.length + plan.block - 1) / plan.block, units = plan.lines * blocks;
  if (units == 0 || plan.length == 0 || whole.channels == 0) return;
  call.workers->run(plan.tasks, [&](int64_t task, int) {
    for (int64_t unit = units * task / plan.tasks; unit < units * (task + 1) / plan.tasks; ++unit) {
      const int64_t first = unit % blocks * plan.block;
      int64_t line = unit / blocks;
      SampleBlock block = whole;
      const int64_t image = line / plan.lines_of_image;
      int64_t from = image * grid.strides[0] + first * whole.grid_step, result = image * to.strides[0] + first * whole.to_step;
      line %= plan.lines_of_image;
      for (int axis = outer; axis > 0; line /= grid.dims[axis--]) {
        from += line % grid.dims[axis] * grid.strides[axis];
        result += line % grid.dims[axis] * to.strides[axis_in_result(args_of(call), axis)];
      }
      block.x = reinterpret_cast<const float*>(x.data) + image * x.strides[0];
      block.grid = reinterpret_cast<const float*>(grid.data) + from;
      block.to = reinterpret_cast<float*>(to.data) + result;
      block.points = std::min(plan.block, plan.length - first);
      plan.run(block);
    }
  });
}

}  // namespace

std::span<const RunKernel> grid_sample_cpu_kernels() {
  static constexpr RunKernel list[] = {{"grid_sample", load_grid_sample, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
