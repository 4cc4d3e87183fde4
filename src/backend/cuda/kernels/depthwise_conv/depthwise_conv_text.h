// A depthwise convolution as CUDA C++: a thread sums a few adjacent outputs of a line, for some channels, in registers, so that each load of A and B
// serves several sums. The body is printed after the sums. Where channels are not neighbours in memory but outputs of a line are, threads are neighbours along
// lines, each with one channel.
#pragma once
#include <string>
#include <vector>

#include "backend/cuda/compile/element_text.h"
#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_cuda_args.h"
#include "backend/offer.h"

namespace ingot::backend::cuda {

struct EmittedDepthwiseConv {
  std::string name;
  std::vector<std::string> kernels;
  std::string text;                  // comes after prelude() and depthwise_conv_text()
  std::vector<std::byte> arguments;  // kernels::DepthwiseConvCudaArgs
  std::vector<ir::Dim> sizes;        // of the step
  bool matrices = false;             // the text has matrix instructions, so it comes after matrix_text() too
};

// How the line (the range of the index before the channels) and its taps move through A.
struct DepthwiseLine {
  static constexpr size_t none = SIZE_MAX;
  size_t axis = none;                // of A; none: all outputs of a line read the same elements
  size_t tap = none;                 // the summed index along the line
  int64_t step = 0, tap_step = 0;    // along the axis
};

// Why a convolution with this body cannot be printed, if so.
struct DepthwiseObstacle {
  Obstacle obstacle;
  std::string reason;
};
std::optional<DepthwiseObstacle> depthwise_conv_obstacle(const DepthwiseConv&, const FusedBody&, const std::vector<StridedLayout>& body_layouts);

// The same for a convolution as a GEMM through a map, if it has groups of few columns, or few columns in all: a thread sums a few adjacent outputs of a line for
// some columns of its group. All sizes must be known. `matrices`: the target has matrix instructions for A's type, by which a warp multiplies sixteen outputs of a line by
// all columns of a group if channels and columns are whole pieces of them.
std::optional<DepthwiseObstacle> grouped_convolution_obstacle(const Gemm&, const FusedBody&, const std::vector<StridedLayout>& body_layouts);
EmittedDepthwiseConv emit_grouped_convolution(const Gemm&, const FusedBody&, const std::vector<StridedLayout>& body_layouts, bool matrices,
                                              const std::vector<int>& variants = {0, 1});
// Without groups, and for each group.
inline constexpr int64_t most_columns_alone = 4, most_columns_of_group = 16;

// For both printers. nullopt if the line's index moves along several axes of A, or shares its axis with other kept indices.
std::optional<DepthwiseLine> find_line(const ir::AffineMap&, size_t kept);
// The places along the line that the windows of adjacent outputs cover, relative to the first, in order.
std::vector<int64_t> places_of(const DepthwiseLine&, int64_t outputs, int64_t taps);
// Names the kernels by a hash of their text, where @ stands for the name. `out` has the sizes of the map.
EmittedDepthwiseConv finished(EmittedDepthwiseConv out, std::string_view kernel, std::string printed, size_t pointers, const ElementText&, const std::vector<int>& variants,
                              kernels::DepthwiseConvCudaArgs);
int64_t coefficient(const ir::AffineMap::Axis&, size_t index);
// True if the map certainly stays inside this axis of A.
bool stays_inside(const ir::AffineMap&, const StridedLayout& a, size_t axis);
std::string_view depthwise_conv_text();
// The step of this kernel. `print`: of these variants. If all sizes are known, kernels that no launch of these sizes and addresses uses are not printed.
EmittedStep emit_windows(std::string_view kernel, const std::function<EmittedDepthwiseConv(const std::vector<int>&)>& print, const StridedLayout& a, const StridedLayout& b,
                         const Site&);
// A pure function. The convolution must have no obstacle. `variants`: the kernels to print, 0 for vectors of channels and 1 for single ones.
EmittedDepthwiseConv emit_depthwise_conv(const DepthwiseConv&, const FusedBody&, const std::vector<StridedLayout>& body_layouts, const std::vector<int>& variants = {0, 1});

}  // namespace ingot::backend::cuda
