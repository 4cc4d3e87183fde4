// Constants of the "grid_sample" step: elements of images at given places. ir/prim.def says what it computes.
//
// Operands: x [N, C, sizes...], grid [N, out..., n], result [N, out..., C] or [N, C, out...] with any strides; the result shares no memory with the others. No sizes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

// The coefficient of cubic sampling, as torch has it.
inline constexpr float cubic_coefficient = -0.75f;

struct GridSampleArgs {
  enum class Mode : uint8_t { linear, nearest, cubic } mode = Mode::linear;
  enum class Outside : uint8_t { zeros, border, reflection } outside = Outside::zeros;
  bool corners = false;  // -1 and 1 are the centres of the first and the last element, not their outer edges
  bool channels_last = true;  // of the result
  uint8_t axes = 2;      // n
};
std::vector<std::byte> serialise(const GridSampleArgs&);
GridSampleArgs parse_grid_sample(std::span<const std::byte>);

}  // namespace ingot::kernels
