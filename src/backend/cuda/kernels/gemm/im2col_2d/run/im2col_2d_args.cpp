#include "backend/cuda/kernels/gemm/im2col_2d/run/im2col_2d_args.h"

#include "base/fields.h"

namespace ingot::kernels {

namespace {

constexpr uint32_t magic = 0x41443249;  // "I2DA"

template <class S, class A>
void fields(S& s, A& a) {
  s.list(a, [&](auto& x) { s.all(x.channels, x.kernel[0], x.kernel[1], x.stride[0], x.stride[1], x.pad[0], x.pad[1], x.last, x.wide); });
}

}  // namespace

std::vector<std::byte> serialise(const std::vector<Im2col2d>& a) {
  return to_bytes(magic, a, [](auto& stream, auto& args) { fields(stream, args); });
}

std::vector<Im2col2d> parse_im2col_2d(std::span<const std::byte> bytes, const GemmArgs& g) {
  auto a = from_bytes<std::vector<Im2col2d>>(bytes, magic, "the arguments of a GEMM by im2col", [](auto& stream, auto& args) { fields(stream, args); });
  require_gemm_args(!a.empty() && g.b_type == g.type && !g.has_prologue() && g.parts_of_b == 1, "im2col");
  for (Im2col2d& s : a) {
    s.size = static_cast<int>(ir::size_of(g.type));
    require_gemm_args(is_possible(s), "im2col");
  }
  return a;
}

}  // namespace ingot::kernels
