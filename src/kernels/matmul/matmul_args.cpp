#include "kernels/matmul/matmul_args.h"

#include <cstring>

#include "base/error.h"

namespace ingot::kernels {

std::vector<std::byte> serialise(const MatmulArgs& args) {
  std::vector<std::byte> out(3 + args.body.size());
  out[0] = std::byte{1};
  out[1] = std::byte(args.packed | args.in_order << 1);
  out[2] = std::byte{args.batch_rank};
  if (!args.body.empty()) std::memcpy(out.data() + 3, args.body.data(), args.body.size());
  return out;
}

MatmulArgs parse_matmul(std::span<const std::byte> bytes) {
  if (bytes.size() < 3 || bytes[0] != std::byte{1} || bytes[1] > std::byte{3}) fail(Code::format, "the arguments of a matmul step are damaged");
  const auto flags = static_cast<uint8_t>(bytes[1]);
  return {(flags & 1) != 0, static_cast<uint8_t>(bytes[2]), bytes.subspan(3), (flags & 2) != 0};
}

}  // namespace ingot::kernels
