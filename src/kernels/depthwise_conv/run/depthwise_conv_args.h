// Arguments of the "depthwise_conv" step: sums over windows, each channel by itself (a depthwise convolution).
//
// operands = A, B, then the body's loads and stores over the domain of the kept indices (the last one: its row). The body's accumulator at the
//   kept indices is the sum over the other ones of A times B, both f32. A is read through a map of all indices, B is strided [kept.., summed..],
//   stride 0 where it does not depend on one. The last kept index (channels) steps to neighbours of A and B.
// sizes = the extent of each index, the offset along each axis of A, then the body's.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

// Element (kept.., summed..) is A's at offset[j] + sum over i of steps[j][i] * index[i] along each axis j of A, and 0 outside of A.
struct DepthwiseConvArgs {
  static constexpr int max_rank = 8;  // of A; of kept and of summed indices
  static constexpr int64_t max_summed = 1024;
  uint8_t rank = 0, kept = 0, summed = 0;
  std::vector<int64_t> steps;         // [rank][kept + summed], 0 or more
  std::span<const std::byte> body;    // fused byte code
};
std::vector<std::byte> serialise(const DepthwiseConvArgs&);
// Error (format) when the bytes are not such arguments; `body` points into them.
DepthwiseConvArgs parse_depthwise_conv(std::span<const std::byte>);

}  // namespace ingot::kernels
