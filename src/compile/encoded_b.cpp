#include "compile/encoded_b.h"

namespace ingot::compile {

using namespace ir;

namespace {

// Matches B [K, N] in the form of encoded_b.h.
std::optional<EncodedB> encoded(const Graph& g, ValueId v) {
  if (g.type(v).dims.size() != 2) return std::nullopt;
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

}  // namespace

bool is_cast_of_int8(const Graph& g, ValueId v) {
  const Node& n = g.producer(v);
  return n.op == Op::cast && g.type(n.in[0]).dtype == DType::i8 && is_float(g.type(v).dtype);
}

std::optional<EncodedB> encoded_b(const Graph& g, const Node& matmul) { return matmul.op == Op::matmul ? encoded(g, matmul.in[1]) : std::nullopt; }

std::vector<ValueId> decoding(const Graph& g, const Node& matmul) {
  if (matmul.op != Op::matmul) return {};
  ValueId v = matmul.in[1];
  std::vector<ValueId> out;
  if (const Node& n = g.producer(v); n.op == Op::cast && is_float(g.type(n.in[0]).dtype)) {
    out.push_back(v);
    v = n.in[0];
  }
  const auto b = encoded(g, v);
  if (!b) return {};
  out.push_back(v);
  if (b->scale != none_id) out.push_back(g.producer(v).in[0]);
  return out;
}

}  // namespace ingot::compile
