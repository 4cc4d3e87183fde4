#include "kernels/scan/run/scan_args.h"

#include "base/error.h"

namespace ingot::kernels {

std::vector<std::byte> serialise(const ScanArgs& a) { return {static_cast<std::byte>(a.kind), std::byte{a.axis}}; }

ScanArgs parse_scan(std::span<const std::byte> bytes) {
  if (bytes.size() != 2 || static_cast<uint8_t>(bytes[0]) > static_cast<uint8_t>(ScanArgs::Kind::logsumexp)) fail(Code::format, "a scan step has wrong constants");
  return {static_cast<ScanArgs::Kind>(bytes[0]), static_cast<uint8_t>(bytes[1])};
}

}  // namespace ingot::kernels
