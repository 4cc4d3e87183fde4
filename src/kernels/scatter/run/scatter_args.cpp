#include "kernels/scatter/run/scatter_args.h"

#include "base/error.h"

namespace ingot::kernels {

std::vector<std::byte> serialise(const ScatterArgs& a) {
  std::vector<std::byte> out = {static_cast<std::byte>(a.kind), std::byte{a.wrap}, std::byte{a.position}};
  for (uint8_t axis : a.axes) out.push_back(std::byte{axis});
  return out;
}

ScatterArgs parse_scatter(std::span<const std::byte> bytes) {
  bool good = bytes.size() >= 4 && static_cast<uint8_t>(bytes[0]) <= static_cast<uint8_t>(ScatterArgs::Kind::max) && static_cast<uint8_t>(bytes[1]) <= 1;
  if (!good) fail(Code::format, "a scatter step has wrong constants");
  ScatterArgs a{static_cast<ScatterArgs::Kind>(bytes[0]), bytes[1] == std::byte{1}, static_cast<uint8_t>(bytes[2]), {}};
  for (std::byte b : bytes.subspan(3)) {
    for (uint8_t before : a.axes) {
      if (before == static_cast<uint8_t>(b)) fail(Code::format, "a scatter step names an axis twice");
    }
    a.axes.push_back(static_cast<uint8_t>(b));
  }
  return a;
}

}  // namespace ingot::kernels
