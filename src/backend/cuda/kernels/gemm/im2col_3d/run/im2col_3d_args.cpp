#include "backend/cuda/kernels/gemm/im2col_3d/run/im2col_3d_args.h"

#include "base/fields.h"

namespace ingot::kernels {

namespace {

constexpr uint32_t magic = 0x41443349;  // "I3DA"

template <class S, class A>
void fields(S& s, A& x) {
  s.all(x.channels, x.kernel[0], x.kernel[1], x.kernel[2], x.last, x.wide, x.deep, x.high, x.lines);
}

}  // namespace

std::vector<std::byte> serialise(const Im2col3d& a) {
  return to_bytes(magic, a, [](auto& stream, auto& args) { fields(stream, args); });
}

Im2col3d parse_im2col_3d(std::span<const std::byte> bytes, const GemmArgs& g) {
  auto a = from_bytes<Im2col3d>(bytes, magic, "the arguments of a GEMM by im2col", [](auto& stream, auto& args) { fields(stream, args); });
  a.size = static_cast<int>(ir::size_of(g.type));
  require_gemm_args(g.b_type == g.type && !g.has_prologue() && g.parts_of_b == 1 && is_possible(a), "im2col");
  return a;
}

}  // namespace ingot::kernels
