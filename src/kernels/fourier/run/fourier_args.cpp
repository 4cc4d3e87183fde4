#include "kernels/fourier/run/fourier_args.h"

#include "base/error.h"

namespace ingot::kernels {

std::vector<std::byte> serialise(const FourierArgs& a) { return {static_cast<std::byte>(a.kind)}; }

FourierArgs parse_fourier(std::span<const std::byte> bytes) {
  if (bytes.size() != 1 || bytes[0] > static_cast<std::byte>(ir::FourierKind::to_real)) fail(Code::format, "a fourier step has wrong constants");
  return {static_cast<ir::FourierKind>(bytes[0])};
}

}  // namespace ingot::kernels
