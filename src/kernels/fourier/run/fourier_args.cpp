#include "kernels/fourier/run/fourier_args.h"

#include "base/error.h"

namespace ingot::kernels {

namespace {

// Bits of the one byte: the kind, the axes but one, and columns.
constexpr int bits_of_kind = 2, bits_of_axes = 2;

}  // namespace

std::vector<std::byte> serialise(const FourierArgs& a) {
  return {static_cast<std::byte>(static_cast<int64_t>(a.kind) | (a.axes - 1) << bits_of_kind | int64_t{a.columns} << (bits_of_kind + bits_of_axes))};
}

FourierArgs parse_fourier(std::span<const std::byte> bytes) {
  const auto bits = bytes.size() == 1 ? static_cast<unsigned>(bytes[0]) : ~0u;
  const unsigned kind = bits & 3, axes = 1 + (bits >> bits_of_kind & 3), columns = bits >> (bits_of_kind + bits_of_axes);
  if (kind > static_cast<unsigned>(ir::FourierKind::to_real) || axes > ir::max_fourier_axes || columns > 1) fail(Code::format, "a fourier step has wrong constants");
  return {static_cast<ir::FourierKind>(kind), axes, columns == 1};
}

}  // namespace ingot::kernels
