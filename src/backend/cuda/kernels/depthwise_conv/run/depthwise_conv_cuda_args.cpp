#include "backend/cuda/kernels/depthwise_conv/run/depthwise_conv_cuda_args.h"

#include <algorithm>
#include <bit>

#include "base/fields.h"

namespace ingot::kernels {

namespace {

constexpr uint32_t magic = 0x35434344;  // "DCC5"

template <class S, class A>
void fields(S& s, A& a) {
  s.text(a.name);
  s.all(a.grouped, a.batch, a.matrices, a.lines, a.rank, a.kept, a.summed, a.stores, a.vector, a.tile, a.lanes, a.sizes);
  auto number = [&](auto& n) { s.all(n.kind, n.a, n.b); };
  s.list(a.steps, [&](auto& step) { s.field(step); });
  s.list(a.unguarded, [&](auto& axis) { s.field(axis); });
  s.list(a.operands, [&](auto& o) { s.all(o.dtype, o.vector); });
  s.list(a.numbers, number);
  s.list(a.known, [&](auto& k) {
    number(k.number);
    s.field(k.value);
  });
}

void check(const DepthwiseConvCudaArgs& a) {
  using Args = DepthwiseConvCudaArgs;
  auto require = [](bool good, const char* what) {
    if (!good) fail(Code::format, "the arguments of a depthwise_conv step for CUDA are damaged: {}", what);
  };
  require(a.rank >= 1 && a.rank <= Args::max_rank && a.kept >= 2 && a.kept <= Args::max_rank && a.summed <= Args::max_rank, "ranks");
  require(a.grouped ? size_t{a.batch} + 2 <= a.kept && a.summed >= 1 && !a.lines : a.batch == 0, "groups");
  require(a.steps.size() == a.rank * a.indices(), "map");
  for (int64_t step : a.steps) require(step >= 0 && step <= INT32_MAX, "map");
  for (uint8_t axis : a.unguarded) require(axis < a.rank, "map");
  require(a.vector >= 1 && a.vector <= 8 && a.tile >= 1 && a.tile <= 8, "tile");
  require(std::has_single_bit(a.lanes) && a.lanes <= 32 && (a.lanes == 1 || (a.grouped && !a.matrices)), "lanes");
  require(!a.matrices || (a.grouped && a.tile == 2), "matrices");
  require(a.sizes >= a.indices() + a.rank && a.sizes <= 250, "sizes");
  require(a.stores >= 1 && a.operands.size() >= size_t{2} + a.stores && a.operands.size() <= 250, "operands");
  for (const auto& o : a.operands) require(static_cast<int>(o.dtype) < ir::dtype_count && o.vector >= 1 && o.vector <= 16, "operand");
  const ir::DType type = a.operands[0].dtype;
  require((type == ir::DType::f32 || type == ir::DType::f16 || type == ir::DType::bf16) && a.operands[1].dtype == (a.grouped ? type : ir::DType::f32), "type");
  auto number = [&](const CudaNumber& n) {
    if (n.kind == CudaNumber::size) return n.a < a.sizes;
    return n.kind <= CudaNumber::dim && n.a < a.operands.size() && n.b < a.rank_of(n.a);
  };
  for (const auto& n : a.numbers) require(number(n), "number");
  for (const auto& k : a.known) require(number(k.number), "number");
}

}  // namespace

std::vector<std::byte> serialise(const DepthwiseConvCudaArgs& a) {
  return to_bytes(magic, a, [](auto& stream, auto& args) { fields(stream, args); });
}

DepthwiseConvCudaArgs parse_depthwise_conv_cuda(std::span<const std::byte> bytes) {
  auto a = from_bytes<DepthwiseConvCudaArgs>(bytes, magic, "the arguments of a depthwise_conv step for CUDA", [](auto& stream, auto& args) { fields(stream, args); });
  check(a);
  return a;
}

}  // namespace ingot::kernels
