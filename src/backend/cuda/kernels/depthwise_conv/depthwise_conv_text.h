// A depthwise convolution as CUDA C++: a thread sums a few adjacent outputs of a line for some channels. Where channels are not neighbours in memory but outputs of a line
// are, threads are neighbours along lines, each with one channel.
#pragma once
#include "backend/cuda/kernels/windows.h"

namespace ingot::backend::cuda {

std::optional<WindowObstacle> depthwise_conv_obstacle(const DepthwiseConv&, const FusedBody&, const std::vector<StridedLayout>& body_layouts);
// A pure function. The convolution must have no obstacle. `variants`: the kernels to print, 0 for vectors of channels and 1 for single ones.
EmittedStep emit_depthwise_conv(const DepthwiseConv&, const FusedBody&, const std::vector<StridedLayout>& body_layouts, const std::vector<int>& variants = {0, 1});

}  // namespace ingot::backend::cuda
