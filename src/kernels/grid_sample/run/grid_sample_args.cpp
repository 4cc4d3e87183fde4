#include "kernels/grid_sample/run/grid_sample_args.h"

#include <algorithm>

#include "base/error.h"

namespace ingot::kernels {

using Mode = GridSampleArgs::Mode;
using Outside = GridSampleArgs::Outside;

std::vector<std::byte> serialise(const GridSampleArgs& a) {
  return {static_cast<std::byte>(a.mode), static_cast<std::byte>(a.outside), static_cast<std::byte>(a.corners), static_cast<std::byte>(a.channels_last),
          static_cast<std::byte>(a.axes)};
}

GridSampleArgs parse_grid_sample(std::span<const std::byte> bytes) {
  // The largest value of each.
  constexpr std::byte limits[] = {static_cast<std::byte>(Mode::cubic), static_cast<std::byte>(Outside::reflection), std::byte{1}, std::byte{1}, std::byte{255}};
  const bool inside =
      bytes.size() == std::size(limits) && std::equal(bytes.begin(), bytes.end(), std::begin(limits), [](std::byte value, std::byte last) { return value <= last; });
  if (!inside || bytes[4] == std::byte{0}) {
    fail(Code::format, "a grid_sample step has wrong constants");
  }
  return {static_cast<Mode>(bytes[0]), static_cast<Outside>(bytes[1]), bytes[2] != std::byte{0}, bytes[3] != std::byte{0}, static_cast<uint8_t>(bytes[4])};
}

}  // namespace ingot::kernels
