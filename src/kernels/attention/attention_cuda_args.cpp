#include "kernels/attention/attention_cuda_args.h"

#include "base/fields.h"

namespace ingot::kernels {

namespace {

constexpr uint32_t magic = 0x31444341;  // "ACD1"
constexpr size_t most_rank = 20;

template <class S, class A>
void fields(S& s, A& a) {
  s.text(a.name);
  s.all(a.batch_rank, a.depth, a.width, a.sizes);
  auto number = [&](auto& n) { s.all(n.kind, n.a, n.b); };
  s.list(a.operands, [&](auto& o) { s.all(o.dtype, o.gathered); });
  s.list(a.numbers, number);
  s.list(a.known, [&](auto& k) {
    number(k.number);
    s.field(k.value);
  });
}

void check(const AttentionCudaArgs& a) {
  auto require = [](bool good, const char* what) {
    if (!good) fail(Code::format, "the arguments of an attention step for CUDA are damaged: {}", what);
  };
  require(a.batch_rank <= most_rank - 2 && a.depth >= 16 && a.depth <= 128 && a.depth % 16 == 0 && a.width >= 16 && a.width <= 128 && a.width % 16 == 0, "sizes");
  require(a.sizes >= 4 && a.sizes <= 250 && a.operands.size() >= 4 && a.operands.size() <= 250, "operands");
  for (const auto& o : a.operands) require(static_cast<int>(o.dtype) < ir::dtype_count && o.gathered <= most_rank, "operand");
  for (size_t k : {size_t{0}, size_t{1}, size_t{2}, a.operands.size() - 1}) require(a.operands[k].gathered == 0 && a.operands[k].dtype == a.operands[0].dtype, "operand");
  require(a.operands[0].dtype == ir::DType::f16 || a.operands[0].dtype == ir::DType::bf16, "type");
  auto number = [&](const AttentionCudaArgs::Number& n) {
    if (n.kind == AttentionCudaArgs::Number::size) return n.a < a.sizes;
    return n.kind <= AttentionCudaArgs::Number::dim && n.a < a.operands.size() && n.b < a.batch_rank + 2 + a.operands[n.a].gathered;
  };
  for (const auto& n : a.numbers) require(number(n), "number");
  for (const auto& k : a.known) require(number(k.number), "number");
}

}  // namespace

std::vector<std::byte> serialise(const AttentionCudaArgs& a) {
  return to_bytes(magic, a, [](auto& stream, auto& args) { fields(stream, args); });
}

AttentionCudaArgs parse_attention_cuda(std::span<const std::byte> bytes) {
  auto a = from_bytes<AttentionCudaArgs>(bytes, magic, "the arguments of an attention step for CUDA", [](auto& stream, auto& args) { fields(stream, args); });
  check(a);
  return a;
}

}  // namespace ingot::kernels
