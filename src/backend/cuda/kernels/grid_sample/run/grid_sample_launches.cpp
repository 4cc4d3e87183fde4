#include "backend/cuda/kernels/grid_sample/run/grid_sample_launches.h"

#include <algorithm>
#include <cstddef>

#include "backend/cuda/kernels/grid_sample/run/grid_sample_cuda_args.h"
#include "backend/cuda/run/launch.h"
#include "kernels/grid_sample/run/grid_sample_checks.h"

namespace ingot::kernels {

namespace {

using Parameters = SampleCudaParameters;

// True if vectors of channels begin at multiples of their length.
bool has_vectors(const TensorRef& x) {
  const int64_t vector = sample_vector(x.dtype);
  return x.strides[1] == 1 && x.dims[1] % vector == 0 && x.strides[0] % vector == 0 && x.strides[2] % vector == 0 && x.strides[3] % vector == 0;
}

}  // namespace

CudaLaunches grid_sample_cuda_launches(const Call& call, const CudaMachine& machine) {
  check_grid_sample(call);
  const auto& args = *static_cast<const GridSampleArgs*>(call.constants);
  const TensorRef &x = call.operands[0], &grid = call.operands[1], &to = call.operands[2];
  JoinedAxes axes(3);
  for (int d = 0; d + 1 < grid.rank; ++d) axes.add(grid.dims[d], {d == 0 ? x.strides[0] : 0, grid.strides[d], to.strides[axis_in_result(args, d)]});
  Parameters p{};
  for (int i : {0, 1}) {
    p.size[i] = x.dims[2 + i];
    p.step[i] = x.strides[2 + i];
  }
  p.channels = x.dims[1];
  p.channel_step = x.strides[1];
  p.to_channel_step = to.strides[channel_axis(args, to)];
  p.grid_step = grid.strides[grid.rank - 1];
  p.points = axes.points;
  p.axes = axes.get<3>();
  CudaLaunches list;
  if (p.points * p.channels == 0) return list;
  auto add = [&](const char* form, int64_t channels_of_share) {
    p.channels_of_share = channels_of_share;
    p.shares = divided_up(p.channels, channels_of_share);
    list.add(grid_sample_cuda_name(args, x.dtype) + form, divided_up(p.points * p.shares, sample::tuning::block), sample::tuning::block, p,
             {{CudaLaunch::Pointer::operand, offsetof(Parameters, x), 0},
              {CudaLaunch::Pointer::operand, offsetof(Parameters, grid), 1},
              {CudaLaunch::Pointer::operand, offsetof(Parameters, to), 2}});
  };
  const int64_t wanted = divided_up(machine.multiprocessors * sample::tuning::busy_points, p.points);
  add(sample_points, divided_up(p.channels, std::clamp<int64_t>(wanted, 1, p.channels)));
  if (has_vectors(x)) {
    std::swap(list.list, list.any);
    list.aligned = {0};
    add(sample_vectors, sample_vector(x.dtype));
  }
  list.overlap();
  return list;
}

std::span<const RunKernel> grid_sample_cuda_kernels() {
  static constexpr RunKernel list[] = {{"grid_sample", load_grid_sample, resolved<grid_sample_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
