// Linear, matmul and its relatives, einsum, attention.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

bool is_one(const Scalar& s) { return !std::holds_alternative<Dim>(s.value) && s.to_double() == 1; }
bool is_zero(const Scalar& s) { return !std::holds_alternative<Dim>(s.value) && s.to_double() == 0; }

// A factor in the tensors' dtype: for integers its fraction is dropped, as in eager.
Scalar factor(const Scalar& s, DType t) {
  if (is_float(t) || std::holds_alternative<Dim>(s.value)) return s;
  if (is_bool(t)) return s.to_double() != 0;
  return static_cast<int64_t>(s.to_double());
}

// beta * c + alpha * product; beta = 0 ignores c, NaN included.
Value blend(const Value& c, const Value& product, const Scalar& given_beta, const Scalar& given_alpha) {
  const Scalar beta = factor(given_beta, c.dtype()), alpha = factor(given_alpha, c.dtype());
  Value y = is_one(alpha) ? product : product * Operand(alpha);
  if (is_zero(beta)) return y;
  return (is_one(beta) ? c : c * Operand(beta)) + y;
}

// The same for a matmul: alpha = 0 ignores it, as in BLAS, except for half tensors.
Value blend_matmul(const Value& c, const Value& product, const Scalar& beta, const Scalar& alpha) {
  if (!is_zero(alpha) || widened(c).dtype() != c.dtype()) return blend(c, product, beta, alpha);
  Value none = full(c.graph(), product.dims(), 0, c.dtype());
  return is_zero(beta) ? none : blend(expand(c, product.dims()), none, beta, 1);
}

Value linear(const Value& x, const Value& w, const std::optional<Value>& bias) {
  Value y = w.rank() == 1 ? matmul(x, w) : matmul(x, transpose(w, 0, 1));
  return bias ? y + *bias : y;
}

// Names the axes after "..." of a term, counted from the last one: '9', '8', ... are not letters. Returns their names in order.
std::string name_ellipsis(std::string& term, int64_t rank) {
  size_t dots = term.find("...");
  const int64_t hidden = rank - static_cast<int64_t>(term.size()) + (dots == std::string::npos ? 0 : 3);
  if (hidden < 0 || hidden > 9 || (hidden > 0 && dots == std::string::npos)) fail(Code::invalid_input, "einsum: \"{}\" for an operand of rank {}", term, rank);
  std::string names;
  for (int64_t i = hidden; i-- > 0;) names += static_cast<char>('9' - i);
  if (dots != std::string::npos) term.replace(dots, 3, names);
  return names;
}

// Axes of one operand with the same letter become one.
Value diagonal_of(const Value& x, std::string& letters) {
  AffineMap map;
  std::string kept;
  for (size_t i = 0; i < letters.size(); ++i) {
    size_t place = kept.find(letters[i]);
    if (place == std::string::npos) {
      place = kept.size();
      kept += letters[i];
      map.dims.push_back(x.dims()[i]);
    } else {
      require(x.graph(), x.dims()[i], ir::Check::equal, map.dims[place], "axes of one einsum operand with the same letter have equal sizes");
    }
    map.axes.push_back({0, {{static_cast<uint32_t>(place), 1}}});
  }
  letters = kept;
  return view(x, std::move(map));
}

// The letters of the operands' axes and of the result's, without ellipses.
struct Equation {
  std::vector<std::string> terms = {};
  std::string out = {};
};

Equation parse_equation(const std::string& text, const std::vector<Value>& operands) {
  std::string equation;
  for (char c : text) {
    if (c != ' ') equation += c;
  }
  size_t arrow = equation.find("->");
  std::string left = equation.substr(0, arrow);
  Equation found{{std::string()}};
  auto& [terms, out] = found;
  for (char c : left) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  if (terms.size() != operands.size()) fail(Code::invalid_input, "einsum: \"{}\" names {} operands, got {}", text, terms.size(), operands.size());
  std::string all_axes;
  for (size_t k = 0; k < terms.size(); ++k) {
    std::string axes = name_ellipsis(terms[k], operands[k].rank());
    if (axes.size() > all_axes.size()) all_axes = axes;
  }
  if (arrow != std::string::npos) {
    out = equation.substr(arrow + 2);
    size_t dots = out.find("...");
    if (dots != std::string::npos) out.replace(dots, 3, all_axes);
  } else {
    out = all_axes;
    std::string letters = left;
    std::sort(letters.begin(), letters.end());
    for (char c : letters) {
      if (std::isalpha(static_cast<unsigned char>(c)) && std::count(left.begin(), left.end(), c) == 1) out += c;
    }
  }
  return found;
}

// A value with a letter for each axis.
struct Lettered {
  Value value;
  std::string letters;

  // Sums over the axes that are not needed.
  void reduce_to(const std::string& needed) {
    Axes gone;
    std::string kept;
    for (size_t i = 0; i < letters.size(); ++i) {
      if (needed.find(letters[i]) == std::string::npos) {
        gone.push_back(static_cast<Axis>(i));
      } else {
        kept += letters[i];
      }
    }
    letters = kept;
    if (!gone.empty()) value = sum(value, gone);
  }
  Value ordered(const std::string& to) const {
    Axes order;
    for (char c : to) order.push_back(static_cast<Axis>(letters.find(c)));
    return permute(value, order);
  }
};

// The product of two: letters in both and in `later` are batch, in both only are summed.
Lettered multiply(Lettered a, Lettered b, const std::string& later) {
  a.reduce_to(b.letters + later);
  b.reduce_to(a.letters + later);
  std::string batch, rows, columns, inner;
  bool sums = false;
  for (char c : a.letters) {
    bool shared = b.letters.find(c) != std::string::npos, needed = later.find(c) != std::string::npos;
    (shared ? needed ? batch : inner : rows) += c;
    sums = sums || (shared && !needed && !(a.value.dims()[a.letters.find(c)] == Dim(1)));
  }
  if (a.value.dtype() != b.value.dtype()) {
    if (sums) fail(Code::unsupported, "aten.einsum.default: its tensors have dtypes {} and {}, and torch takes equal ones", name_of(a.value.dtype()), name_of(b.value.dtype()));
    const DType t = ir::result_type(std::vector<Operand>{a.value, b.value});  // torch multiplies their elements
    a.value = cast(a.value, t), b.value = cast(b.value, t);
  }
  for (char c : b.letters) {
    if (a.letters.find(c) == std::string::npos) columns += c;
  }
  auto dims_of = [&](const std::string& letters) {
    Dims d;
    for (char c : letters) d.push_back(a.letters.find(c) != std::string::npos ? a.value.dims()[a.letters.find(c)] : b.value.dims()[b.letters.find(c)]);
    return d;
  };
  auto shape = [&](const std::string& x, const std::string& y) {
    Dims d = dims_of(batch);
    d.push_back(product(dims_of(x)));
    d.push_back(product(dims_of(y)));
    return d;
  };
  Value left = reshape(a.ordered(batch + rows + inner), shape(rows, inner)), right = reshape(b.ordered(batch + inner + columns), shape(inner, columns));
  return {reshape(matmul(left, right), dims_of(batch + rows + columns)), batch + rows + columns};
}

// path: the places of the two operands that each step multiplies, as torch.einsum gets them from opt_einsum; the product becomes the last operand. Without one, the product so far is
// multiplied by the next operand.
Value einsum(const std::string& text, const std::vector<Value>& operands, const std::optional<Axes>& path) {
  auto [terms, out] = parse_equation(text, operands);
  std::vector<Value> values = operands;
  for (size_t k = 0; k < values.size(); ++k) values[k] = diagonal_of(values[k], terms[k]);
  // An axis of size 1 broadcasts against an operand that has it in full: it is dropped, and the matmul broadcasts.
  std::map<char, Dim> sizes;
  for (size_t k = 0; k < values.size(); ++k) {
    for (size_t i = 0; i < terms[k].size(); ++i) {
      if (!(values[k].dims()[i] == Dim(1))) sizes[terms[k][i]] = values[k].dims()[i];
    }
  }
  for (size_t k = 0; k < values.size(); ++k) {
    for (size_t i = terms[k].size(); i-- > 0;) {
      if (!(values[k].dims()[i] == Dim(1)) || !sizes.contains(terms[k][i])) continue;
      values[k] = squeeze(values[k], static_cast<Axis>(i));
      terms[k].erase(i, 1);
    }
  }
  std::vector<Lettered> left;
  for (size_t k = 0; k < values.size(); ++k) left.push_back({values[k], terms[k]});
  if (path && path->size() != 2 * (left.size() - 1)) fail(Code::invalid_input, "einsum: a path of {} numbers for {} operands", path->size(), left.size());
  for (size_t step = 0; left.size() > 1; ++step) {
    size_t a = step == 0 ? 0 : left.size() - 1, b = step == 0 ? 1 : 0;
    if (path) {
      const auto [low, high] = std::minmax((*path)[2 * step], (*path)[2 * step + 1]);
      if (low < 0 || low == high || high >= static_cast<Axis>(left.size())) fail(Code::invalid_input, "einsum: the path multiplies operands {} and {} of {}", low, high, left.size());
      a = static_cast<size_t>(low), b = static_cast<size_t>(high);
    }
    std::string later = out;
    for (size_t k = 0; k < left.size(); ++k) if (k != a && k != b) later += left[k].letters;
    Lettered made = multiply(left[a], left[b], later);
    for (size_t gone : {std::max(a, b), std::min(a, b)}) left.erase(left.begin() + static_cast<int64_t>(gone));
    left.push_back(std::move(made));
  }
  left[0].reduce_to(out);
  return left[0].ordered(out);
}

// Sums over pairs of axes of both.
Value tensordot(Value a, Value b, const Axes& dims_a, const Axes& dims_b) {
  if (dims_a.size() != dims_b.size()) fail(Code::invalid_input, "tensordot: {} and {} axes", dims_a.size(), dims_b.size());
  auto is_in = [](const Value& x, const Axes& dims, Axis axis) { return std::any_of(dims.begin(), dims.end(), [&](Axis d) { return x.axis(d) == axis; }); };
  for (size_t i = 0; i < dims_a.size(); ++i) {  // an axis of size 1 meets any size
    const Dim have = a.dim(dims_a[i]), other = b.dim(dims_b[i]);
    if (have == Dim(1) && !(other == Dim(1)))
      b = cast(sum(b, {dims_b[i]}, keep), b.dtype());
    else if (other == Dim(1) && !(have == Dim(1)))
      a = cast(sum(a, {dims_a[i]}, keep), a.dtype());
    else
      require(a.graph(), have, ir::Check::equal, other, "the axes that tensordot sums have equal sizes");
  }
  Axes order_a, order_b;
  Dims result, inner;
  for (Axis i = 0; i < a.rank(); ++i) {
    if (!is_in(a, dims_a, i)) order_a.push_back(i), result.push_back(a.dim(i));
  }
  const Dim rows = product(result);
  for (size_t i = 0; i < dims_a.size(); ++i) {
    order_a.push_back(a.axis(dims_a[i]));
    order_b.push_back(b.axis(dims_b[i]));
    inner.push_back(a.dim(dims_a[i]));
  }
  Dim columns = 1;
  for (Axis i = 0; i < b.rank(); ++i) {
    if (!is_in(b, dims_b, i)) order_b.push_back(i), result.push_back(b.dim(i)), columns *= b.dim(i);
  }
  return reshape(matmul(reshape(permute(a, order_a), {rows, product(inner)}), reshape(permute(b, order_b), {product(inner), columns})), result);
}

// x1[i] w[o, i, j] x2[j] for each o.
Value bilinear(const Value& x1, const Value& x2, const Value& w, const std::optional<Value>& bias) {
  Dims dims(x1.dims().begin(), x1.dims().end() - 1);
  const Dim rows = product(dims), i = w.dim(1), j = w.dim(2), o = w.dim(0);
  const Value a = reshape(x1, {rows, i}), b = reshape(x2, {rows, Dim(1), j});
  const Value each = reshape(matmul(a, reshape(permute(w, {1, 0, 2}), {i, o * j})), {rows, o, j});
  const Value y = cast(sum(widened(each) * widened(b), {-1}), x1.dtype());
  dims.push_back(o);
  return reshape(bias ? y + *bias : y, dims);
}

// The sum of products of three tensors, each with axes of size 1 inserted: what torch decomposes bilinear into.
Value trilinear(const Value& a, const Value& b, const Value& c, Axes expand_a, Axes expand_b, Axes expand_c, const Axes& summed) {
  auto expanded = [](Value x, Axes& axes) {
    std::sort(axes.begin(), axes.end());
    for (Axis axis : axes) x = unsqueeze(x, axis);
    return widened(x);
  };
  const Value y = expanded(a, expand_a) * expanded(b, expand_b) * expanded(c, expand_c);
  return cast(summed.empty() ? y : sum(y, summed), a.dtype());
}

// The last axes of both are summed.
Value inner(const Value& a, const Value& b) {
  if (a.rank() == 0 || b.rank() == 0) return a * b;
  return tensordot(a, b, {-1}, {-1});
}

Value sdpa(Value q, Value k, Value v, std::optional<Value> mask, double dropout, bool causal, std::optional<double> scale, bool gqa) {
  if (dropout > 0) fail(Code::unsupported, "scaled_dot_product_attention with dropout (call model.eval() first)");
  if (!scale && !q.dims().back().constant()) {
    // The scale belongs to the attention as a number; of heads whose size is known only at run time the queries carry it.
    const DType t = q.dtype();
    q = widened(q);
    q = q / sqrt(literal(q.graph(), q.dims().back(), q.dtype()));
    return cast(sdpa(q, widened(k), widened(v), mask, dropout, causal, 1.0, gqa), t);
  }
  double s = scale ? *scale : 1 / std::sqrt(static_cast<double>(q.dims().back().value()));
  Dims original = q.dims();
  original.back() = v.dims().back();
  bool grouped = gqa && q.rank() >= 3 && !(q.dim(-3) == k.dim(-3));
  if (grouped) {
    // [.., H, S, D] with [.., G, T, D]: heads become [G, H / G], keys and values repeat over the second.
    Dim groups = k.dim(-3), each = floordiv(q.dim(-3), groups);
    Dims d = q.dims();
    d.insert(d.end() - 2, each);
    d[d.size() - 4] = groups;
    q = reshape(q, d);
    k = unsqueeze(k, -3);
    v = unsqueeze(v, -3);
    if (mask && mask->rank() >= 3) {
      if (mask->dim(-3) == Dim(1)) {
        mask = unsqueeze(*mask, -3);
      } else {
        Dims m = mask->dims();
        m.insert(m.end() - 2, each);
        m[m.size() - 4] = groups;
        mask = reshape(*mask, m);
      }
    }
  }
  if (mask && mask->dtype() != DType::b8) mask = cast(*mask, q.dtype());
  Value y = attention(q, k, v, mask, s, causal);
  return grouped ? reshape(y, original) : y;
}

// The logarithm of the sum that the softmax of each query divides by.
Value log_sums(const Value& q, const Value& k, const std::optional<Value>& mask, bool causal, std::optional<double> scale) {
  const DType t = q.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Value size = literal(q.graph(), q.dims().back(), t);
  Value scores = matmul(cast(q, t), cast(transpose(k, -2, -1), t));
  scores = scale ? scores * *scale : scores / sqrt(size);
  if (mask) scores = mask->dtype() == DType::b8 ? select(*mask, scores, -std::numeric_limits<double>::infinity()) : scores + cast(*mask, t);
  if (causal) {
    const Dims d = scores.dims();
    Value column_minus_row = ir::index(q.graph(), {d[d.size() - 2], d.back()}, 1) - ir::index(q.graph(), {d[d.size() - 2], d.back()}, 0);
    scores = select(column_minus_row <= 0, scores, -std::numeric_limits<double>::infinity());
  }
  const Value top = amax(scores, {-1}, keep);
  return cast(squeeze(log(sum(exp(scores - top), {-1}, keep)) + top, -1), t);
}

// The same where several heads of queries share one of keys.
Value log_sums_of_heads(const Value& q, const Value& k, bool causal, std::optional<double> scale) {
  if (q.rank() < 3 || q.dim(-3) == k.dim(-3)) return log_sums(q, k, std::nullopt, causal, scale);
  Dims d = q.dims();
  const Dims sizes(d.begin(), d.end() - 1);
  d.insert(d.end() - 2, floordiv(q.dim(-3), k.dim(-3)));
  d[d.size() - 4] = k.dim(-3);
  return reshape(log_sums(reshape(q, d), unsqueeze(k, -3), std::nullopt, causal, scale), sizes);
}

// Attention's results with `states` more that nothing reads.
std::vector<Value> with_states(const Value& y, const Value& sums, size_t states) {
  std::vector<Value> results{y, sums};
  results.insert(results.end(), states, full(y.graph(), {}, int64_t{0}, DType::i64));
  return results;
}

const Definition linear_rows[] = {
    {"linear(Tensor input, Tensor weight, Tensor? bias=None)", Types::same, [](Value x, Value w, std::optional<Value> b) { return linear(x, w, b); }},
    {"matmul(Tensor self, Tensor other)", Types::same, [](Value a, Value b) { return matmul(a, b); }},
    {"mm(Tensor self, Tensor mat2)", Types::same, [](Value a, Value b) { return matmul(a, b); }},
    // Of int8 matrices, added in int32.
    {"_int_mm(Tensor self, Tensor mat2)", Types::same,
     [](Value a, Value b) {
       if (a.dtype() != DType::i8) fail(Code::unsupported, "_int_mm of {}", name_of(a.dtype()));
       return matmul(cast(a, DType::i32), cast(b, DType::i32));
     }},
    {"bmm(Tensor self, Tensor mat2)", Types::same, [](Value a, Value b) { return matmul(a, b); }},
    {"mv(Tensor self, Tensor vec)", Types::same, [](Value a, Value b) { return matmul(a, b); }},
    {"dot(Tensor self, Tensor tensor)", Types::same, [](Value a, Value b) { return matmul(a, b); }},
    {"vdot(Tensor self, Tensor other)", Types::same, [](Value a, Value b) { return matmul(a, b); }},
    {"tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other)", Types::same, [](Value a, Value b, Axes da, Axes db) { return tensordot(a, b, da, db); }},
    {"inner(Tensor self, Tensor other)", Types::same, [](Value a, Value b) { return inner(a, b); }},
    {"linalg_vecdot(Tensor x, Tensor y, *, int dim=-1)", Types::same,
     [](Value a, Value b, int64_t dim) {
       const Value y = widened(a) * widened(b);
       return cast(sum(y, {dim}), a.dtype());
     }},
    {"_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, int unroll_dim=1)", Types::same,
     [](Value a, Value b, Value c, Axes e1, Axes e2, Axes e3, Axes s, int64_t) { return trilinear(a, b, c, e1, e2, e3, s); }},
    {"bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None)", Types::same,
     [](Value a, Value b, Value w, std::optional<Value> bias) { return bilinear(a, b, w, bias); }},
    {"{outer,ger}(Tensor self, Tensor vec2)", Types::common, [](Value a, Value b) { return unsqueeze(a, 1) * b; }},
    {"addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1)", Types::same,
     [](Value c, Value a, Value b, Scalar beta, Scalar alpha) { return blend_matmul(c, matmul(a, b), beta, alpha); }},
    {"_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool use_gelu=False)", Types::same,
     [](Value c, Value a, Value b, Scalar beta, Scalar alpha, bool gelu) {
       if (gelu) fail(Code::unsupported, "_addmm_activation with gelu: on a GPU torch takes another form of it than on the CPU");
       return relu(blend_matmul(c, matmul(a, b), beta, alpha));
     }},
    {"baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1)", Types::same,
     [](Value c, Value a, Value b, Scalar beta, Scalar alpha) { return blend_matmul(c, matmul(a, b), beta, alpha); }},
    {"addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1)", Types::same,
     [](Value c, Value a, Value b, Scalar beta, Scalar alpha) { return blend_matmul(c, cast(sum(matmul(a, b), {0}), c.dtype()), beta, alpha); }},
    {"addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1)", Types::same,
     [](Value c, Value a, Value b, Scalar beta, Scalar alpha) { return blend_matmul(c, matmul(a, b), beta, alpha); }},
    {"addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1)", Types::common,
     [](Value c, Value a, Value b, Scalar beta, Scalar alpha) { return blend(c, unsqueeze(a, 1) * b, beta, alpha); }},
    {"einsum(str equation, Tensor[] tensors, *, int[]? path=None)", Types::each,
     [](std::string equation, std::vector<Value> operands, std::optional<Axes> path) { return einsum(equation, operands, path); }},
    {"scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool "
     "enable_gqa=False)",
     Types::each,
     [](Value q, Value k, Value v, std::optional<Value> mask, double dropout, bool causal, std::optional<double> scale, bool gqa) {
       return sdpa(q, k, v, mask, dropout, causal, scale, gqa);
     }},
    // Attention as torch decomposes it: the result, and the logarithm of the sum for each query.
    {"_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None)",
     Types::each,
     [](Value q, Value k, Value v, double dropout, bool causal, std::optional<Value> mask, std::optional<double> scale) {
       return std::pair(sdpa(q, k, v, mask, dropout, causal, scale, false), log_sums(q, k, mask, causal, scale));
     }},
    // And as it calls it on a GPU: after these two come the states of random numbers, which nothing reads without dropout.
    {"_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, *, "
     "float? scale=None)",
     Types::each,
     [](Value q, Value k, Value v, std::optional<Value> bias, bool, double dropout, bool causal, std::optional<double> scale) {
       return with_states(sdpa(q, k, v, bias, dropout, causal, scale, false), log_sums(q, k, bias, causal, scale), 2);
     }},
    {"_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool is_causal=False, bool return_debug_mask=False, *, float? scale=None)",
     Types::each,
     [](Value q, Value k, Value v, double dropout, bool causal, bool, std::optional<double> scale) {
       // Its kernel puts the corner of the mask at the end of both, and other forms at their beginning.
       if (causal && !(q.dim(-2) == k.dim(-2))) fail(Code::unsupported, "_scaled_dot_product_flash_attention of other numbers of queries and keys with is_causal");
       return with_states(sdpa(q, k, v, std::nullopt, dropout, causal, scale, true), log_sums_of_heads(q, k, causal, scale), 5);
     }},
    {"_scaled_dot_product_cudnn_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, "
     "bool return_debug_mask=False, *, float? scale=None)",
     Types::each,
     [](Value q, Value k, Value v, std::optional<Value> bias, bool, double dropout, bool causal, bool, std::optional<double> scale) {
       return with_states(sdpa(q, k, v, bias, dropout, causal, scale, false), log_sums(q, k, bias, causal, scale), 5);
     }},
    {"_scaled_dot_product_fused_attention_overrideable(Tensor query, Tensor key, Tensor value, Tensor? attn_bias=None, float dropout_p=0.0, bool is_causal=False, bool "
     "return_debug_mask=False, *, float? scale=None)",
     Types::each,
     [](Value q, Value k, Value v, std::optional<Value> bias, double dropout, bool causal, bool, std::optional<double> scale) {
       return with_states(sdpa(q, k, v, bias, dropout, causal, scale, false), log_sums(q, k, bias, causal, scale), 5);
     }},
};

}  // namespace

std::span<const Definition> linear_definitions() { return linear_rows; }

}  // namespace ingot::ops
