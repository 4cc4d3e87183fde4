#include "backend/cuda/kernels/concurrent/run/concurrent_args.h"

#include "base/fields.h"

namespace ingot::kernels {

namespace {

constexpr uint32_t magic = 0x42434e43;  // "CNCB"

template <class S, class A>
void fields(S& s, A& a) {
  s.text(a.kernel);
  s.list(a.steps, [&](auto& step) { s.all(step.operands, step.writes, step.sizes, step.bytes); });
  s.list(a.constants, [&](auto& byte) { s.field(byte); });
}

}  // namespace

std::vector<std::byte> serialise(const ConcurrentArgs& args) {
  return to_bytes(magic, args, [](auto& s, auto& a) { fields(s, a); });
}

ConcurrentArgs parse_concurrent(std::span<const std::byte> bytes) {
  ConcurrentArgs args = from_bytes<ConcurrentArgs>(bytes, magic, "the arguments of a concurrent step", [](auto& s, auto& a) { fields(s, a); });
  uint64_t constants = args.steps.empty() ? UINT64_MAX : 0;
  bool good = true;
  for (const ConcurrentArgs::Step& s : args.steps) {
    good = good && s.writes >= 1 && s.writes <= s.operands;
    constants += s.bytes;
  }
  if (!good || constants != args.constants.size()) fail(Code::format, "the arguments of a concurrent step are damaged");
  return args;
}

}  // namespace ingot::kernels
