// Torch's fused operators of transformers: its own encoder layer and attention in eval mode, and products with a matrix of each expert.
#include <cmath>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

Value linear(const Value& x, const Value& w, const Value& bias) { return matmul(x, transpose(w, 0, 1)) + bias; }

Value layer_norm(const Value& x, const Value& weight, const Value& bias, double eps) {
  const Value wide = widened(x), centred = wide - mean(wide, {-1}, keep);
  return cast(centred * rsqrt(mean(square(centred), {-1}, keep) + eps) * widened(weight) + widened(bias), x.dtype());
}

// What may be attended to, for scores [B, H, T, S]. `type`: 0 a mask [T, S], 1 one of keys [B, S], else one of all scores. Torch's masks are true (or not 0) where nothing is read.
std::optional<Value> allowed(const std::optional<Value>& mask, std::optional<int64_t> type) {
  if (!mask) return std::nullopt;
  Value m = logical_not(*mask);
  return type.value_or(-1) == 1 || (!type && m.rank() == 2) ? reshape(m, {m.dim(0), Dim(1), Dim(1), m.dim(1)}) : m;
}

struct Heads {
  Value q, k, v;  // [B, H, T, D]
};

Heads heads_of(const Value& q, const Value& k, const Value& v, int64_t heads, const Value& weight, const Value& bias) {
  const Dim width = floordiv(weight.dim(0), 3), each = floordiv(width, heads);
  auto part = [&](const Value& x, int64_t i) {
    auto third = [&](const Value& w) { return view(w, slice_map(w.dims(), 0, width * Dim(i), width, 1)); };
    return transpose(reshape(linear(x, third(weight), third(bias)), {x.dim(0), x.dim(1), Dim(heads), each}), 1, 2);
  };
  return {part(q, 0), part(k, 1), part(v, 2)};
}

Value attended(const Heads& h, const std::optional<Value>& mask, const Value& weight, const Value& bias) {
  const auto size = h.q.dims().back().constant();
  if (!size) fail(Code::unsupported, "attention with heads of a dynamic size");
  const Value y = attention(h.q, h.k, h.v, mask, 1 / std::sqrt(static_cast<double>(*size)), false);
  return linear(reshape(transpose(y, 1, 2), {y.dim(0), y.dim(2), y.dim(1) * y.dim(3)}), weight, bias);
}

// What each query took of each key.
Value weights_of(const Heads& h, const std::optional<Value>& mask, bool average) {
  const Value q = widened(h.q);
  Value scores = matmul(q / sqrt(literal(q.graph(), q.dims().back(), q.dtype())), transpose(widened(h.k), -2, -1));
  if (mask) scores = select(*mask, scores, -INFINITY);
  const Value e = exp(scores - amax(scores, {-1}, keep)), y = e / sum(e, {-1}, keep);
  return cast(average ? mean(y, {1}) : y, h.q.dtype());
}

struct Layer {
  int64_t heads;
  Value qkv_weight, qkv_bias, proj_weight, proj_bias;
  bool gelu, norm_first;
  double eps;
  Value norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, up_weight, up_bias, down_weight, down_bias;
  std::optional<Value> mask;  // true where it may read
};

Value encoder_layer(const Value& x, const Layer& l) {
  auto attend = [&](const Value& v) { return attended(heads_of(v, v, v, l.heads, l.qkv_weight, l.qkv_bias), l.mask, l.proj_weight, l.proj_bias); };
  auto forward = [&](const Value& v) {
    const Value up = linear(v, l.up_weight, l.up_bias);
    return linear(l.gelu ? gelu(up) : relu(up), l.down_weight, l.down_bias);
  };
  auto first = [&](const Value& v) { return layer_norm(v, l.norm_weight_1, l.norm_bias_1, l.eps); };
  auto second = [&](const Value& v) { return layer_norm(v, l.norm_weight_2, l.norm_bias_2, l.eps); };
  if (l.norm_first) {
    const Value y = x + attend(first(x));
    return y + forward(second(y));
  }
  const Value y = first(x + attend(x));
  return second(y + forward(y));
}

// ---- a matrix for each group of rows

// Row i of x [S, K] times the matrix of its group: w [G, K, N]. Group g ends before row ends[g]; rows after the last are 0.
Value grouped(const Value& x, const Value& w, const Value& ends) { return ragged_matmul(x, w, ends); }

Value grouped_mm(const Value& a, const Value& b, const std::optional<Value>& ends, const std::optional<Value>& bias, std::optional<DType> t) {
  if (bias) fail(Code::unsupported, "_grouped_mm with a bias");
  if (a.dtype() != b.dtype()) fail(Code::unsupported, "_grouped_mm of {} and {}", name_of(a.dtype()), name_of(b.dtype()));
  auto typed = [&](const Value& y) { return t ? cast(y, *t) : y; };
  if (a.rank() == 3 && b.rank() == 3) return typed(matmul(a, b));
  if (!ends) fail(Code::unsupported, "_grouped_mm without offsets");
  if (a.rank() == 2 && b.rank() == 3) return typed(grouped(a, b, *ends));
  if (a.rank() == 3 && b.rank() == 2) return typed(transpose(grouped(transpose(b, 0, 1), transpose(a, 1, 2), *ends), 0, 1));
  fail(Code::unsupported, "_grouped_mm of groups along the inner axis");
}

const Definition transformer_rows[] = {
    {"_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, bool use_gelu, bool "
     "norm_first, float eps, Tensor norm_weight_1, Tensor norm_bias_1, Tensor norm_weight_2, Tensor norm_bias_2, Tensor ffn_weight_1, Tensor ffn_bias_1, Tensor ffn_weight_2, "
     "Tensor ffn_bias_2, Tensor? mask=None, int? mask_type=None)",
     Types::each,
     [](Value x, int64_t, int64_t heads, Value qkv, Value qkv_bias, Value proj, Value proj_bias, bool gelu, bool first, double eps, Value n1, Value b1, Value n2, Value b2,
        Value up, Value up_bias, Value down, Value down_bias, std::optional<Value> mask, std::optional<int64_t> type) {
       if (x.rank() != 3) fail(Code::unsupported, "an encoder layer of rank {}", x.rank());
       return encoder_layer(x, {heads, qkv, qkv_bias, proj, proj_bias, gelu, first, eps, n1, b1, n2, b2, up, up_bias, down, down_bias, allowed(mask, type)});
     }},
    {"_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, "
     "Tensor? mask=None, bool need_weights=True, bool average_attn_weights=True, int? mask_type=None)",
     Types::each,
     [](Value q, Value k, Value v, int64_t, int64_t heads, Value qkv, Value qkv_bias, Value proj, Value proj_bias, std::optional<Value> mask, bool, bool average,
        std::optional<int64_t> type) {
       const Heads h = heads_of(q, k, v, heads, qkv, qkv_bias);
       const std::optional<Value> may = allowed(mask, type);
       return std::pair(attended(h, may, proj, proj_bias), weights_of(h, may, average));
     }},
    {"_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None)", Types::each,
     [](Value a, Value b, std::optional<Value> ends, std::optional<Value> bias, std::optional<DType> t) { return grouped_mm(a, b, ends, bias, t); }},
    // Transformers' own, for weights that torch's does not take.
    {"transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs)", Types::each, [](Value x, Value w, Value ends) { return grouped(x, w, ends); }},
};

}  // namespace

std::span<const Definition> transformer_definitions() { return transformer_rows; }

}  // namespace ingot::ops
