// A depthwise convolution as CUDA C++: a thread sums some neighbouring outputs of a line for some channels in registers, so that what it reads of A and B
// serves several of them. The body is printed behind the sums.
#pragma once
#include <string>
#include <vector>

#include "backend/offer.h"

namespace ingot::backend::cuda {

struct EmittedDepthwiseConv {
  std::string name;
  std::vector<std::string> kernels;
  std::string text;                  // behind prelude() and depthwise_conv_text()
  std::vector<std::byte> arguments;  // kernels::DepthwiseConvCudaArgs
  std::vector<ir::Dim> sizes;        // of the step
};

// How the line, which the index before the channels runs over, and its taps lie in A.
struct DepthwiseLine {
  static constexpr size_t none = SIZE_MAX;
  size_t axis = none;                // of A; none: all outputs of a line read the same
  size_t tap = none;                 // the summed index along the line
  int64_t step = 0, tap_step = 0;    // along the axis
};

// Why there is no text for a convolution with this body, or nothing.
struct DepthwiseObstacle {
  Obstacle obstacle;
  std::string reason;
};
std::optional<DepthwiseObstacle> depthwise_conv_obstacle(const DepthwiseConv&, const FusedBody&, const std::vector<StridedLayout>& body_layouts);

std::string_view depthwise_conv_text();
// A pure function of what has no obstacle.
EmittedDepthwiseConv emit_depthwise_conv(const DepthwiseConv&, const FusedBody&, const std::vector<StridedLayout>& body_layouts);

}  // namespace ingot::backend::cuda
