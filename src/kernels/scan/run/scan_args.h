// Constants of the "scan" step: inclusive running sums and the like along one axis.
//
// Operands: in, out (written), of equal dtype and dims, with any strides; out may be in. No sizes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

struct ScanArgs {
  enum class Kind : uint8_t { sum, prod, max, min, logsumexp } kind = Kind::sum;
  uint8_t axis = 0;
};
std::vector<std::byte> serialise(const ScanArgs&);
ScanArgs parse_scan(std::span<const std::byte>);

}  // namespace ingot::kernels
