#include "kernels/attention/run/attention_args.h"

#include <cstring>

#include "base/error.h"

namespace ingot::kernels {

constexpr size_t head = 16;  // version, flags and ranks, the scale; then the mask's code

std::vector<std::byte> serialise(const AttentionArgs& args) {
  std::vector<std::byte> out(head + args.mask.size());
  out[0] = std::byte{1};
  out[1] = std::byte{args.causal};
  out[2] = std::byte{args.batch_rank};
  out[3] = std::byte{!args.mask.empty()};
  out[4] = std::byte{args.in_order};
  out[5] = std::byte{args.filled};
  std::memcpy(out.data() + 8, &args.scale, 8);
  if (!args.mask.empty()) std::memcpy(out.data() + head, args.mask.data(), args.mask.size());
  return out;
}

AttentionArgs parse_attention(std::span<const std::byte> bytes) {
  auto is_flag = [&](size_t at) { return bytes[at] <= std::byte{1}; };
  const bool flags = bytes.size() >= head && is_flag(1) && is_flag(3) && is_flag(4) && is_flag(5);
  if (!flags || bytes[0] != std::byte{1}) fail(Code::format, "the arguments of an attention step are damaged");
  AttentionArgs args;
  args.causal = bytes[1] == std::byte{1};
  args.in_order = bytes[4] == std::byte{1};
  args.filled = bytes[5] == std::byte{1};
  args.batch_rank = static_cast<uint8_t>(bytes[2]);
  std::memcpy(&args.scale, bytes.data() + 8, 8);
  args.mask = bytes.subspan(head);
  if (args.mask.empty() != (bytes[3] == std::byte{0})) fail(Code::format, "the arguments of an attention step are damaged");
  return args;
}

}  // namespace ingot::kernels
