// Constants of a "depthwise_conv" step on CUDA: the generated kernels and how to launch them.
//
// Operands and sizes are those of the CPU's step (kernels/depthwise_conv/run/depthwise_conv_args.h), but A may be of a half type, and the body has its own
// sizes.
#pragma once
#include "backend/cuda/kernels/run/windows_args.h"

namespace ingot::kernels {

struct DepthwiseConvCudaArgs : WindowArgs {
  bool lines = false;                // threads are neighbours along lines of A, not along channels
};

std::vector<std::byte> serialise(const DepthwiseConvCudaArgs&);
// Checks every index. Error (format).
DepthwiseConvCudaArgs parse_depthwise_conv_cuda(std::span<const std::byte>);

}  // namespace ingot::kernels
