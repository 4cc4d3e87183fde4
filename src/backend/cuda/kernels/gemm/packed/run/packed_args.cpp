#include "backend/cuda/kernels/gemm/packed/run/packed_args.h"

#include "base/fields.h"

namespace ingot::kernels {

namespace {

constexpr uint32_t magic = 0x4b434150;  // "PACK"

template <class S, class A>
void fields(S& s, A& a) {
  s.all(a.b.bits, a.b.group, a.b.scale_bytes, a.b.zero);
  s.text(a.many.kernel);
  s.list(a.many.args, [&](auto& byte) { s.field(byte); });
}

}  // namespace

std::optional<PackedB> packed_b(const ir::Encoding& e) {
  if (!e.panels || e.panels->columns != packed_columns || e.panels->depth != packed_depth) return std::nullopt;
  PackedB out{e.bits, static_cast<uint8_t>(e.block ? e.block->k : 0), 0, e.zero};
  if (out.group != 0) out.scale_bytes = static_cast<uint8_t>(e.panels->of_block / out.groups() - (e.zero ? 1 : 0));
  return out.valid() && out.encoding() == e ? std::optional(out) : std::nullopt;
}

std::vector<std::byte> serialise(const PackedArgs& a) {
  return to_bytes(magic, a, [](auto& stream, auto& args) { fields(stream, args); });
}

PackedArgs parse_packed_args(std::span<const std::byte> bytes) {
  auto a = from_bytes<PackedArgs>(bytes, magic, "the arguments of a GEMM by packed weights", [](auto& stream, auto& args) { fields(stream, args); });
  require_gemm_args(a.b.valid(), "packed numbers");
  return a;
}

}  // namespace ingot::kernels
