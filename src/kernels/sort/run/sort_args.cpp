#include "kernels/sort/run/sort_args.h"

#include "base/error.h"

namespace ingot::kernels {

std::vector<std::byte> serialise(const SortArgs& a) { return {std::byte{a.axis}, std::byte{a.descending}}; }

SortArgs parse_sort(std::span<const std::byte> bytes) {
  if (bytes.size() != 2 || static_cast<uint8_t>(bytes[1]) > 1) fail(Code::format, "a sort step has wrong constants");
  return {static_cast<uint8_t>(bytes[0]), bytes[1] == std::byte{1}};
}

}  // namespace ingot::kernels
