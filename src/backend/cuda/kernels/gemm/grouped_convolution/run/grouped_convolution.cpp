// "gemm_grouped_convolution": a GEMM through a map, whose batches are groups. Its launches are those of sums over windows (depthwise_conv).
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_cuda_args.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_launches.h"
#include "backend/cuda/run/launch.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

std::shared_ptr<const void> load(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto out = load_depthwise_conv_cuda(constants, operands, sizes);
  if (!static_cast<const DepthwiseConvCudaArgs*>(out.get())->grouped) fail(Code::format, "the arguments of a grouped convolution have no groups");
  return out;
}

}  // namespace

std::span<const RunKernel> gemm_grouped_convolution_cuda_kernels() {
  static constexpr RunKernel list[] = {{"gemm_grouped_convolution", load, resolved<depthwise_conv_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
