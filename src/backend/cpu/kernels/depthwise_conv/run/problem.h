// What both kernels of depthwise convolutions read: along channels, and along lines (depthwise_lines).
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/kernels/fused/run/program.h"
#include "kernels/depthwise_conv/run/depthwise_conv_args.h"
#include "kernels/run/index_map.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels::depthwise {

struct Constants {
  DepthwiseConvArgs args;  // without the body
  std::shared_ptr<const Program> body;
  size_t map_sizes() const { return size_t{args.rank} + args.kept + args.summed; }
};
// RunKernel::load; the result is Constants.
std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes);

// A step's operands and sizes, checked.
struct Problem {
  Bound bound;
  IndexMap map;
  std::vector<int64_t> b_strides;      // per index; 0 where B repeats
  int64_t lines = 1, width, channels;  // of the result: its last two axes, and the others
  bool is_empty() const { return lines * width * channels == 0; }
};
// Error (format) if they do not fit.
Problem checked(const Call&);

}  // namespace ingot::kernels::depthwise
