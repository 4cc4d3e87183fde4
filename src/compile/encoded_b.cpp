#include "compile/encoded_b.h"

#include <algorithm>

#include "base/error.h"

namespace ingot::compile {

using namespace ir;

namespace {

bool is_plain(const Node& n) { return n.op == Op::reshape || (n.op == Op::view && !n.attributes.map("map").fill); }

// The number that a literal is.
std::optional<double> literal(const Graph& g, ValueId v) {
  const Node& n = g.producer(v);
  if (n.op != Op::literal) return std::nullopt;
  const Scalar& value = n.attributes.scalar("value");
  return value.is_bool() ? std::nullopt : std::optional(value.to_double());
}

// A bound that a min or max sets: the literal, and its other operand.
std::optional<std::pair<double, ValueId>> bound(const Graph& g, ValueId v, Op op) {
  const Node& n = g.producer(v);
  if (n.op != op) return std::nullopt;
  for (size_t k = 0; k < 2; ++k) {
    if (const auto value = literal(g, n.in[k])) return std::pair(*value, n.in[1 - k]);
  }
  return std::nullopt;
}

// True if the graph says that every integer is in -8 .. 7: views and concatenations of what is clamped to it.
bool fits_4_bits(const Graph& g, ValueId v) {
  for (; is_plain(g.producer(v)); v = g.producer(v).in[0]) {
  }
  const Node& n = g.producer(v);
  if (n.op == Op::concat) return std::all_of(n.in.begin(), n.in.end(), [&](ValueId part) { return fits_4_bits(g, part); });
  const auto above = bound(g, v, Op::min);
  const auto below = above ? bound(g, above->second, Op::max) : std::nullopt;
  return below && above->first <= 7 && below->first >= -8;
}

// What is read as [K / group, 1, N] in another type: [K / group, N] in its own.
ValueId of_blocks(const Graph& g, ValueId v) {
  if (const Node& n = g.producer(v); n.op == Op::cast) v = n.in[0];
  const Node& n = g.producer(v);
  const Dims& dims = g.type(v).dims;
  return is_plain(n) && g.type(n.in[0]).dims == Dims{dims[0], dims[2]} ? n.in[0] : none_id;
}

std::optional<EncodedB> grouped(const Graph& g, ValueId v) {
  const Node& whole = g.producer(v);
  if (whole.op != Op::reshape) return std::nullopt;
  const Dims &b = g.type(v).dims, &dims = g.type(whole.in[0]).dims;
  const Node& times = g.producer(whole.in[0]);
  if (times.op != Op::mul || dims.size() != 3 || !(dims[2] == b[1]) || !dims[1].is_constant() || !(dims[0] * dims[1] == b[0])) return std::nullopt;
  const Dims of_block{dims[0], 1, dims[2]};
  ValueId numbers = times.in[0], zero = none_id;
  if (const Node& minus = g.producer(numbers); minus.op == Op::sub && g.type(minus.in[1]).dims == of_block) numbers = minus.in[0], zero = minus.in[1];
  if (!is_cast_of_int8(g, numbers) || !(g.type(numbers).dims == dims) || !(g.type(times.in[1]).dims == of_block)) return std::nullopt;
  const Node& split = g.producer(g.producer(numbers).in[0]);
  if (split.op != Op::reshape || !(g.type(split.in[0]).dims == b)) return std::nullopt;
  EncodedB out{split.in[0], of_blocks(g, times.in[1]), {.storage = DType::i8}};
  out.encoding.block = Encoding::Block{dims[1].value(), 1};
  out.encoding.zero = zero != none_id;
  if (fits_4_bits(g, out.numbers)) out.encoding.needed = 4;
  if (zero != none_id) out.zero = of_blocks(g, zero);
  return out.scale == none_id || (zero != none_id && out.zero == none_id) ? std::nullopt : std::optional(out);
}

}  // namespace

bool is_cast_of_int8(const Graph& g, ValueId v) {
  const Node& n = g.producer(v);
  return n.op == Op::cast && g.type(n.in[0]).dtype == DType::i8 && is_float(g.type(v).dtype);
}

std::optional<EncodedB> encoded_value(const Graph& g, ValueId v) {
  if (g.type(v).dims.size() != 2) return std::nullopt;
  if (auto groups = grouped(g, v)) return groups;
  EncodedB out{none_id, none_id, {.storage = DType::i8}};
  if (const Node& n = g.producer(v);
      n.op == Op::mul && is_cast_of_int8(g, n.in[0]) && g.type(n.in[0]).dims == g.type(v).dims && g.type(n.in[1]).dims == Dims{1, g.type(v).dims.back()}) {
    v = n.in[0];
    out.scale = n.in[1];
    out.encoding.block = Encoding::Block{0, 1};
  }
  if (!is_cast_of_int8(g, v)) return std::nullopt;
  out.numbers = g.producer(v).in[0];
  return out;
}

std::optional<EncodedB> encoded_b(const Graph& g, const Node& matmul) { return matmul.op == Op::matmul ? encoded_value(g, matmul.in[1]) : std::nullopt; }

std::vector<ValueId> packed_operands(const Graph& g, ValueId b, const backend::Packing& packing) {
  if (!packing.encoding.block) return {b};
  const auto encoded = encoded_value(g, b);
  if (!encoded || !encoded->grouped()) fail(Code::internal, "a B that is packed in groups has none");
  std::vector<ValueId> out{encoded->numbers, encoded->scale};
  if (encoded->zero != none_id) out.push_back(encoded->zero);
  return out;
}

backend::Site encoded_sketch(const Graph& g, backend::Gemm sketch, const EncodedB& b) {
  sketch.encoding = b.encoding;
  if (!b.grouped()) return site_of(std::move(sketch));
  auto operand = [&](kernels::Role role, ValueId v) { return backend::Operand{role, g.type(v).dtype, backend::unplaced(g.type(v).dims)}; };
  const backend::Operand scale = operand(kernels::Role::scale, b.scale), zero = operand(kernels::Role::zero, b.zero == none_id ? b.scale : b.zero);
  sketch.scale = &scale;
  sketch.zero = b.zero == none_id ? nullptr : &zero;
  return site_of(std::move(sketch));
}

std::vector<ValueId> decoding(const Graph& g, const Node& matmul) {
  if (matmul.op != Op::matmul) return {};
  ValueId v = matmul.in[1];
  std::vector<ValueId> out;
  if (const Node& n = g.producer(v); n.op == Op::cast && is_float(g.type(n.in[0]).dtype)) {
    out.push_back(v);
    v = n.in[0];
  }
  const auto b = encoded_value(g, v);
  if (!b) return {};
  if (!b->grouped()) {
    out.push_back(v);
    if (b->scale != none_id) out.push_back(g.producer(v).in[0]);
    return out;
  }
  // All floats between B and what is stored.
  for (std::vector<ValueId> todo{v}; !todo.empty();) {
    const ValueId at = todo.back();
    todo.pop_back();
    if (at == b->numbers || at == b->scale || at == b->zero || !is_float(g.type(at).dtype)) continue;
    out.push_back(at);
    const std::vector<ValueId>& in = g.producer(at).in;
    todo.insert(todo.end(), in.begin(), in.end());
  }
  return out;
}

Handle grouped_b(const Handle& numbers, const Handle& scale, const std::optional<Handle>& zero) {
  const Dim n = numbers.dim(0), k = numbers.dim(1), groups = scale.dim(1);
  auto of_blocks = [&](const Handle& x) { return cast(reshape(transpose(x, 0, 1), {groups, Dim(1), n}), DType::f32); };
  Handle b = cast(reshape(transpose(numbers, 0, 1), {groups, Dim(k.value() / groups.value()), n}), DType::f32);
  if (zero) b = b - of_blocks(*zero);
  return reshape(b * of_blocks(scale), {k, n});
}

}  // namespace ingot::compile
