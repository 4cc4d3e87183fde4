// Distances and angles between vectors, and products of vectors of three.
#include <cmath>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

// The length of differences along the last axis, as an order-p norm has it.
Value length(const Value& difference, double p) {
  const Value a = abs(difference);
  if (p == 0) return sum(cast(not_equal(a, 0.0), a.dtype()), {-1});
  if (p == 1) return sum(a, {-1});
  if (p == 2) return sqrt(sum(square(a), {-1}));
  if (p == INFINITY) return amax(a, {-1});
  return ir::map(Op::pow, {sum(ir::map(Op::pow, {a, p}), {-1}), 1 / p});
}

// By |a|^2 + |b|^2 - 2 a b, as torch measures many vectors: faster, and inexact where two are near one another.
Value by_products(const Value& a, const Value& b) {
  const Value squares = sum(square(a), {-1}, keep) + transpose(sum(square(b), {-1}, keep), -2, -1);
  return sqrt(maximum(squares - matmul(a, transpose(b, -2, -1)) * 2.0, 0.0));
}

// [.., P, M] and [.., R, M] -> [.., P, R]
Value cdist(const Value& a, const Value& b, double p, std::optional<int64_t> mode) {
  if (!is_float(a.dtype())) fail(Code::unsupported, "cdist of {}", name_of(a.dtype()));
  require(a.graph(), a.dim(-1), Check::equal, b.dim(-1), "the vectors of cdist have equal lengths");
  auto many = [&](const Value& x) { return x.dim(-2).range(x.graph().symbols).min > 25; };
  if (p == 2 && (mode.value_or(0) == 1 || (mode.value_or(0) == 0 && (many(a) || many(b))))) return by_products(a, b);
  if (a.dim(-1) == Dim(0)) return sum(unsqueeze(a, -2) - unsqueeze(b, -3), {-1});
  return length(unsqueeze(a, -2) - unsqueeze(b, -3), p);
}

// Each pair of rows i < j once, in the order of i, then of j. The pairs that begin with i are numbered from i * n - i * (i + 1) / 2. Solving that for i in float64 may be off
// by one near its ends, which the comparison with the exact numbers mends.
Value pdist(const Value& x, double p) {
  if (x.dtype() != DType::f32 && x.dtype() != DType::f64) fail(Code::unsupported, "pdist of {}", name_of(x.dtype()));
  Graph& g = x.graph();
  const Dim n = x.dim(0), pairs = floordiv(n * (n - 1), 2);
  const Value k = iota(g, pairs);
  auto first_of = [&](const Value& i) { return i * Operand(n) - ir::map(Op::truncdiv, {i * (i + 1), 2}); };
  const Value b = cast(literal(g, n * 2 - 1, DType::i64), DType::f64);
  const Value guess = cast((b - sqrt(maximum(b * b - cast(k, DType::f64) * 8.0, 0.0))) / 2.0, DType::i64);
  const Value low = select(first_of(guess) > k, guess - 1, guess);
  const Value i = select(first_of(low + 1) <= k, low + 1, low);
  const Value j = k - first_of(i) + i + 1;
  return length(gather(x, {0}, {i}, 0, false) - gather(x, {0}, {j}, 0, false), p);
}

Value cosine_similarity(const Value& given_a, const Value& given_b, int64_t dim, double eps) {
  const Dims dims = require_broadcast(given_a.graph(), {given_a.dims(), given_b.dims()});
  const Value a = expand(widened(given_a), dims), b = expand(widened(given_b), dims);
  auto unit = [&](const Value& x) { return x / maximum(sqrt(sum(square(x), {dim}, keep)), eps); };
  return cast(sum(unit(a) * unit(b), {dim}), given_a.dtype());
}

Value cross(const Value& given_a, const Value& given_b, int64_t dim) {
  if (is_bool(given_a.dtype())) fail(Code::unsupported, "cross of bools");
  const Dims dims = require_broadcast(given_a.graph(), {given_a.dims(), given_b.dims()});
  const Value a = expand(given_a, dims), b = expand(given_b, dims);
  require(a.graph(), a.dim(dim), Check::equal, 3, "vectors of a cross product have three elements");
  auto part = [&](const Value& x, int64_t i) { return view(x, slice_map(x.dims(), x.axis(dim), i % 3, 1, 1)); };
  std::vector<Value> out;
  for (int64_t i = 0; i < 3; ++i) out.push_back(part(a, i + 1) * part(b, i + 2) - part(a, i + 2) * part(b, i + 1));
  return concat(out, dim);
}

// The first axis of size 3.
int64_t axis_of_three(const Value& x) {
  for (Axis a = 0; a < x.rank(); ++a) {
    if (x.dim(a) == Dim(3)) return a;
  }
  fail(Code::unsupported, "cross without an axis of size 3");
}

const Definition distance_rows[] = {
    {"cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None)", Types::same, [](Value a, Value b, double p, std::optional<int64_t> mode) { return cdist(a, b, p, mode); }},
    {"_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode)", Types::same, [](Value a, Value b, double p, std::optional<int64_t> mode) { return cdist(a, b, p, mode); }},
    {"_euclidean_dist(Tensor x1, Tensor x2)", Types::same, [](Value a, Value b) { return by_products(a, b); }},
    {"{pdist,_pdist_forward}(Tensor self, float p=2)", [](Value x, double p) { return pdist(x, p); }},
    {"pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False)", Types::numbers,
     [](Value a, Value b, double p, double eps, bool keepdim) {
       const Value y = length(widened(a) - widened(b) + eps, p);
       return cast(keepdim ? unsqueeze(y, -1) : y, float_type(a.dtype()));
     }},
    {"cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08)", Types::floats,
     [](Value a, Value b, int64_t dim, double eps) { return cosine_similarity(a, b, dim, eps); }},
    {"linalg_cross(Tensor self, Tensor other, *, int dim=-1)", Types::same, [](Value a, Value b, int64_t dim) { return cross(a, b, dim); }},
    {"cross(Tensor self, Tensor other, int? dim=None)", Types::same, [](Value a, Value b, std::optional<int64_t> dim) { return cross(a, b, dim ? *dim : axis_of_three(a)); }},
    {"dist(Tensor self, Tensor other, Scalar p=2)", Types::numbers,
     [](Value a, Value b, Scalar p) {
       if (!is_float(a.dtype())) fail(Code::unsupported, "dist of {}", name_of(a.dtype()));
       const Value difference = widened(a) - widened(b);
       return cast(length(reshape(difference, {Dim(-1)}), p.to_double()), a.dtype());
     }},
};

}  // namespace

std::span<const Definition> distance_definitions() { return distance_rows; }

}  // namespace ingot::ops
