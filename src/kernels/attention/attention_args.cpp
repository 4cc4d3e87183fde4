#include "kernels/attention/attention_args.h"

#include <cstring>

#include "base/error.h"

namespace ingot::kernels {

std::vector<std::byte> serialise(const AttentionArgs& args) {
  std::vector<std::byte> out(8 + args.mask.size());
  out[0] = std::byte{1};
  out[1] = std::byte{args.causal};
  out[2] = std::byte{args.batch_rank};
  out[3] = std::byte{!args.mask.empty()};
  std::memcpy(out.data() + 4, &args.scale, 4);
  if (!args.mask.empty()) std::memcpy(out.data() + 8, args.mask.data(), args.mask.size());
  return out;
}

AttentionArgs parse_attention(std::span<const std::byte> bytes) {
  if (bytes.size() < 8 || bytes[0] != std::byte{1} || bytes[1] > std::byte{1} || bytes[3] > std::byte{1}) fail(Code::format, "the arguments of an attention step are damaged");
  AttentionArgs args;
  args.causal = bytes[1] == std::byte{1};
  args.batch_rank = static_cast<uint8_t>(bytes[2]);
  std::memcpy(&args.scale, bytes.data() + 4, 4);
  args.mask = bytes.subspan(8);
  if (args.mask.empty() != (bytes[3] == std::byte{0})) fail(Code::format, "the arguments of an attention step are damaged");
  return args;
}

}  // namespace ingot::kernels
