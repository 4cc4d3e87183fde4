// Constants of the "depthwise_conv" step.
//
// Operands: A, B, then the body's loads and stores over the kept indices (the last one is its row). The body's accumulator is the sum of A times B over the
// other indices, in f32. A is read through a map from all indices. B is strided [kept.., summed..], with stride 0 where it does not depend on an index. The
// last kept index (channels) is contiguous in A and B. Sizes: the extent of each index, the offset along each axis of A, then the body's.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

// Element (kept.., summed..) is A's element at offset[j] + sum over i of steps[j][i] * index[i] along each axis j, and 0 outside A.
struct DepthwiseConvArgs {
  static constexpr int max_rank = 8;  // of A; of kept and of summed indices
  static constexpr int64_t max_summed = 1024;
  uint8_t rank = 0, kept = 0, summed = 0;
  std::vector<int64_t> steps;         // [rank][kept + summed], not negative
  std::span<const std::byte> body;    // fused byte code
};
std::vector<std::byte> serialise(const DepthwiseConvArgs&);
// Error (format) for invalid bytes; `body` points into them.
DepthwiseConvArgs parse_depthwise_conv(std::span<const std::byte>);

}  // namespace ingot::kernels
