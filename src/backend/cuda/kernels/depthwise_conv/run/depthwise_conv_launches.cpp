#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_launches.h"

#include "backend/cuda/kernels/concurrent/run/part_launches.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_cuda_args.h"
#include "backend/cuda/kernels/run/windows.h"
#include "backend/cuda/run/launch.h"

namespace ingot::kernels {

std::shared_ptr<const void> load_depthwise_conv_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<DepthwiseConvCudaArgs>(parse_depthwise_conv_cuda(constants));
  check_window_counts(*args, "depthwise_conv", operands, sizes);
  return args;
}

CudaLaunches depthwise_conv_cuda_launches(const Call& call, const CudaMachine&) {
  const auto& a = *static_cast<const DepthwiseConvCudaArgs*>(call.constants);
  constexpr const char* step = "a depthwise_conv";
  check_window_operands(a, step, call.sizes.first(a.indices()), call.sizes.first(a.kept), call);
  const size_t channel = a.last(), line = a.line();
  const int64_t tiles = divided_up(call.sizes[line], a.tile);
  WindowThreads threads{tiles * (call.sizes[channel] / a.vector), tiles * call.sizes[channel], {}};
  for (size_t k = 0; k < call.operands.size(); ++k) {
    // The index whose neighbours are accessed together.
    const size_t along = a.lines || (k > 1 && call.operands[k].strides[channel] != 1) ? line : channel;
    uint32_t axes = k == 0 ? 0 : 1u << along;
    for (size_t axis = 0; k == 0 && axis < a.rank; ++axis) axes |= static_cast<uint32_t>(a.steps[axis * a.indices() + along] != 0) << axis;
    threads.vector_axes.push_back(axes);
  }
  return window_launches(a, step, threads, call);
}

extern const PartLaunches depthwise_conv_part;
const PartLaunches depthwise_conv_part{load_depthwise_conv_cuda, depthwise_conv_cuda_launches};

std::span<const RunKernel> depthwise_conv_cuda_kernels() {
  static constexpr RunKernel list[] = {{"depthwise_conv", load_depthwise_conv_cuda, resolved<depthwise_conv_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
