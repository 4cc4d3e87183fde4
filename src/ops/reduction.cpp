// Reductions and scans.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/binding.h"
#include "ops/lowest.h"

namespace ingot::ops {

using namespace ir;

namespace {

Axes all_axes(const Value& x) {
  Axes all(static_cast<size_t>(x.rank()));
  std::iota(all.begin(), all.end(), Axis{0});
  return all;
}

Axes axes_of(const std::optional<Axes>& dim) { return dim.value_or(Axes{}); }

// True if the axis is known to have some.
bool has_elements(const Value& x, Axis axis) { return known_less(0, x.dim(axis), x.graph().symbols) == Truth::yes; }

// A result that is one of the elements: none of the axes that go is empty, as in ATen. Without axes all go.
void require_elements(const Value& x, const char* what, Axes axes) {
  if (axes.empty() || x.rank() == 0) axes = all_axes(x);
  for (Axis a : axes) {
    if (x.dim(a) == Dim(0)) fail(Code::invalid_input, "{}: no elements to reduce over", what);
    require(x.graph(), 1, Check::less_equal, x.dim(a), "there are elements to reduce over");
  }
}

// max, min, argmax or argmin as users call them. Compositions use `reduce`, which takes no elements where their result has none either.
Value extreme(const char* kind, const Value& x, const Axes& axes, Keep keep) {
  require_elements(x, kind, axes);
  return reduce(kind, x, axes, keep);
}

// any and all are bool, except that ATen keeps uint8.
Value truth(const char* kind, Value x, Axes axes, Keep keep) {
  Value y = reduce(kind, x, std::move(axes), keep);
  return x.dtype() == DType::u8 ? cast(y, DType::u8) : y;
}

// With a dtype asked for, narrow integers are added as int64 and wrapped once: the same bits.
Value summed(Value x, const Axes& dim, bool keepdim, std::optional<DType> t) {
  if (!t) return sum(x, dim, Keep(keepdim));
  return cast(sum(cast(x, *t), dim, Keep(keepdim)), *t);
}

Value multiplied(Value x, const Axes& dim, bool keepdim, std::optional<DType> t) {
  if (!t) return reduce("prod", x, dim, Keep(keepdim));
  return cast(reduce("prod", cast(x, *t), dim, Keep(keepdim)), *t);
}

Value mean_of(Value x, const Axes& dim, bool keepdim, std::optional<DType> t) {
  if (t) x = cast(x, *t);
  if (!is_float(x.dtype())) fail(Code::invalid_input, "mean: dtype {} is not a float", name_of(x.dtype()));
  return mean(x, dim, Keep(keepdim));
}

// The number of elements less the correction, at least 0; 0 for no elements, whatever the correction: the variance of nothing is NaN.
Value divisor(const Value& x, const Axes& dim, std::optional<double> correction, DType t) {
  const Dim n = count(x, dim);
  const double c = correction.value_or(1);
  if (n.is_constant()) return literal(x.graph(), n.value() == 0 ? 0.0 : std::max(0.0, static_cast<double>(n.value()) - c), t);
  const Value all = cast(literal(x.graph(), n, DType::i64), t);
  const Value rest = maximum(all - c, 0.0);
  return c < 0 ? select(all > 0, rest, 0.0) : rest;
}

std::pair<Value, Value> variance(const Value& x, const Axes& dim, std::optional<double> correction, bool keepdim) {
  const Value wide = size_of(x.dtype()) == 2 ? cast(x, DType::f32) : x;
  Value m = mean(wide, dim, keep);
  Value squares = sum(square(wide - m), dim, Keep(keepdim));
  return {cast(squares / divisor(x, dim, correction, squares.dtype()), x.dtype()), cast(keepdim ? m : mean(wide, dim, drop), x.dtype())};
}

// The standard deviation and the mean. A deviation that x's type holds may have a square that only double holds; those of f16 fit float32.
std::pair<Value, Value> deviation(const Value& x, const Axes& dim, std::optional<double> correction, bool keepdim) {
  auto [v, m] = variance(cast(x, x.dtype() == DType::f16 ? DType::f32 : DType::f64), dim, correction, keepdim);
  return {cast(sqrt(v), x.dtype()), cast(m, x.dtype())};
}

// Of variables, which are rows of observations; a vector is one variable.
Value covariance(const Value& given, int64_t correction) {
  if (given.rank() > 2) fail(Code::invalid_input, "cov: the observations have {} axes, 2 at most are taken", given.rank());
  const Value x = widened(to_float(given.rank() == 2 ? given : reshape(given, {1, Dim(-1)})));
  const Value difference = x - mean(x, {1}, keep);
  const Value degrees = maximum(cast(literal(x.graph(), x.dim(1) - Dim(correction), DType::i64), x.dtype()), 0.0);
  return squeeze(squeeze(matmul(difference, transpose(difference, 0, 1)) / degrees, 1), 0);
}

Value correlation(const Value& given) {
  const Value c = covariance(given, 1);
  if (c.rank() == 0) return c / c;
  const AffineMap::Axis each{0, {{0, 1}}};
  const Value deviations = sqrt(view(c, {{c.dim(0)}, {each, each}, {}}));
  return clamp(c / unsqueeze(deviations, 1) / deviations, Operand(-1.0), Operand(1.0));
}

Value norm(Value x, const Scalar& ord, const Axes& dim, bool keepdim, std::optional<DType> t) {
  if (t) x = cast(x, *t);
  DType result = x.dtype();
  if (size_of(result) == 2) x = cast(x, DType::f32);
  double p = ord.to_double();
  Value a = abs(x);
  Value y = p == INFINITY                       ? extreme("max", a, dim, Keep(keepdim))
            : p == -INFINITY                    ? extreme("min", a, dim, Keep(keepdim))
            : p == 0                            ? sum(cast(not_equal(x, 0), x.dtype()), dim, Keep(keepdim))
            : p == 1 || count(x, dim) == Dim(1) ? sum(a, dim, Keep(keepdim))  // a power of one number may underflow
            : p == 2                            ? sqrt(sum(square(x), dim, Keep(keepdim)))
                                                : ir::map(Op::pow, {sum(ir::map(Op::pow, {a, p}), dim, Keep(keepdim)), 1 / p});
  return cast(y, result);
}

// Each slice along `dim` is scaled down to a norm of at most `most`.
Value renorm(const Value& given, double p, int64_t dim, double max_norm) {
  if (!is_float(given.dtype())) fail(Code::unsupported, "renorm of {}", name_of(given.dtype()));
  const Value x = widened(given);
  Axes others;
  for (Axis a = 0; a < x.rank(); ++a) {
    if (a != x.axis(dim)) others.push_back(a);
  }
  const Value size = norm(x, p, others, true, std::nullopt);
  return cast(x * select(size > max_norm, max_norm / (size + 1e-7), 1.0), given.dtype());
}

// The rows of a table that the indices name, scaled down to a norm of at most `most`.
Value renormed_rows(const Value& table, const Value& given, double max_norm, double p) {
  if (!is_float(table.dtype()) || table.rank() != 2) fail(Code::unsupported, "embedding_renorm of {} of rank {}", name_of(table.dtype()), table.rank());
  const Value index = cast(reshape(given, {Dim(-1)}), DType::i64);
  return scatter(table, {0}, {index}, 0, false, renorm(gather(table, {0}, {index}, 0, false), p, 0, max_norm), "set");
}

// ord and dim of torch.linalg.norm: a vector norm over one axis or over all, a matrix norm over two.
Value linalg_norm(Value x, const std::optional<Scalar>& ord, std::optional<Axes> dim, bool keepdim, std::optional<DType> t) {
  if (t) x = cast(x, *t);
  if (!ord) return norm(x, 2, axes_of(dim), keepdim, std::nullopt);
  if (!dim) dim = all_axes(x);
  if (dim->size() < 2) return norm(x, *ord, *dim, keepdim, std::nullopt);
  double p = std::abs(ord->to_double());
  if (dim->size() != 2 || (p != 1 && p != INFINITY)) fail(Code::unsupported, "linalg_norm: the matrix norm of order {} needs singular values", ord->to_double());
  // The largest or smallest of the sums over columns (1) or rows (inf).
  Axis summed_axis = x.axis((*dim)[p == 1 ? 0 : 1]), other = x.axis((*dim)[p == 1 ? 1 : 0]);
  const Value sums = sum(abs(x), {summed_axis}, keep);
  auto largest = [&] {  // of no sums it is 0
    if (x.dim(other) == Dim(0)) return sum(sums, {other}, keep);
    const Value most = amax(sums, {other}, keep);
    return has_elements(x, other) ? most : maximum(most, 0.0);
  };
  Value y = ord->to_double() > 0 ? largest() : extreme("min", sums, {other}, keep);
  if (keepdim) return y;
  Value z = squeeze(y, std::max(summed_axis, other));
  return squeeze(z, std::min(summed_axis, other));
}

Value logsumexp(Value x, const Axes& dim, bool keepdim) {
  x = to_float(x);
  const bool none = std::any_of(dim.begin(), dim.end(), [&](Axis a) { return x.rank() > 0 && x.dim(a) == Dim(0); });
  if (none) return log(sum(exp(x), dim, Keep(keepdim)));  // of no elements there is no largest
  Value m = amax(x, dim, keep);
  Value shift = select(ir::map(Op::is_inf, {m}), 0.0, m);
  Value s = log(sum(exp(x - shift), dim, keep)) + shift;
  if (keepdim || x.rank() == 0) return s;
  return reshape(s, amax(x, dim, drop).dims());
}

std::pair<Value, Value> extreme_and_place(const char* kind, const char* arg, const Value& x, int64_t dim, bool keepdim) {
  if (x.rank() == 0) return {x, literal(x.graph(), 0, DType::i64)};
  return {extreme(kind, x, {dim}, Keep(keepdim)), extreme(arg, x, {dim}, Keep(keepdim))};
}

Value arg(const char* kind, const Value& x, std::optional<int64_t> dim, bool keepdim) { return extreme(kind, x, dim && x.rank() > 0 ? Axes{*dim} : Axes{}, Keep(keepdim)); }

Value scanned(const char* kind, Value x, int64_t dim, std::optional<DType> t) {
  if (!t) return scan(kind, x, dim);
  return cast(scan(kind, cast(x, *t), dim), *t);
}

Value without(const Value& y, int64_t dim, bool keepdim) { return keepdim ? y : squeeze(y, dim); }

// The first `count` elements of each sorted line, and where they are.
std::pair<Value, Value> smallest(const Value& x, const Dim& count, int64_t dim) { return topk(x, count, dim, false, true); }

// The element in the middle of each sorted line, the lower one of two, and where it is. NaN is last when sorted; a line with one has the first as its median.
std::pair<Value, Value> median(const Value& x, int64_t dim, bool keepdim, bool skip_nan) {
  if (x.rank() == 0) return {x, literal(x.graph(), 0, DType::i64)};
  require_elements(x, "median", {dim});
  const Dim middle = floordiv(x.dim(dim) - Dim(1), 2);
  const auto [values, indices] = smallest(x, middle + Dim(1), dim);
  Dims one = x.dims();
  one[static_cast<size_t>(x.axis(dim))] = 1;
  const Value nan = is_float(x.dtype()) ? ir::map(Op::is_nan, {x}) : Value();
  Value place = expand(literal(x.graph(), middle, DType::i64), one);
  if (is_float(x.dtype()) && skip_nan) place = maximum(ir::map(Op::floordiv, {sum(logical_not(nan), {dim}, keep) - 1, 2}), 0);
  Value at = without(take_along(indices, dim, place), dim, keepdim);
  if (is_float(x.dtype()) && !skip_nan) at = select(reduce("any", nan, {dim}, Keep(keepdim)), reduce("argmax", x, {dim}, Keep(keepdim)), at);
  return {without(take_along(x, dim, keepdim ? at : unsqueeze(at, x.axis(dim))), dim, keepdim), at};
}

// Of all elements. Of none it is NaN, or the lowest integer.
Value median_of_all(const Value& x, bool skip_nan) {
  const Value flat = reshape(x, {Dim(-1)});
  if (has_elements(flat, 0)) return median(flat, 0, false, skip_nan).first;
  const bool floats = is_float(x.dtype());
  const Value sorted = sort(flat, 0, false, false).first, nan = floats ? ir::map(Op::is_nan, {flat}) : Value();
  const Value count = floats && skip_nan ? sum(logical_not(nan), {}) : literal(x.graph(), flat.dim(0), DType::i64);
  const Value one_more = pad(sorted, {Dim(0)}, {Dim(1)}, floats ? Scalar(NAN) : lowest(x.dtype()));
  const Value middle = reshape(take_along(one_more, 0, reshape(maximum(ir::map(Op::floordiv, {count - 1, 2}), 0), {Dim(1)})), {});
  return floats && !skip_nan ? select(reduce("any", nan, {}, drop), NAN, middle) : middle;
}

std::pair<Value, Value> kth_value(const Value& x, const Dim& k, int64_t dim, bool keepdim) {
  if (x.rank() == 0) return {x, literal(x.graph(), 0, DType::i64)};
  const auto [values, indices] = smallest(x, k, dim);
  auto part = [&](const Value& v) { return without(view(v, slice_map(v.dims(), v.axis(dim), k - Dim(1), 1, 1)), dim, keepdim); };
  return {part(values), part(indices)};
}

// The element that a line has most often, the smallest of several, and where it is last.
std::pair<Value, Value> mode(const Value& x, int64_t dim, bool keepdim) {
  if (x.rank() == 0) return {x, literal(x.graph(), 0, DType::i64)};
  const Axis axis = x.axis(dim);
  require_elements(x, "mode", {axis});
  const auto [values, indices] = sort(x, axis, false, true);
  const Value place = ir::index(x.graph(), x.dims(), axis);
  const Value differs =
      not_equal(view(values, slice_map(values.dims(), axis, 1, x.dim(axis) - Dim(1), 1)), view(values, slice_map(values.dims(), axis, 0, x.dim(axis) - Dim(1), 1)));
  Dims before(x.dims().size(), Dim(0)), after = before;
  before[static_cast<size_t>(axis)] = 1;
  const Value begins = scan("max", select(pad(differs, before, after, true), place, 0), axis);
  const Value best = reduce("argmax", place - begins, {axis}, keep);
  return {without(take_along(values, axis, best), axis, keepdim), without(take_along(indices, axis, best), axis, keepdim)};
}

// The largest (or smallest) element so far, and where it was last.
std::pair<Value, Value> running(const char* kind, const Value& x, int64_t dim) {
  if (x.rank() == 0) return {x, literal(x.graph(), 0, DType::i64)};
  const Value extremes = scan(kind, x, dim);
  Value here = equal(x, extremes);
  if (is_float(x.dtype())) here = here | ir::map(Op::is_nan, {x});
  return {extremes, scan("max", select(here, ir::index(x.graph(), x.dims(), x.axis(dim)), 0), dim)};
}

// Elements of the sorted lines at q * (n - 1); q [..] comes first among the result's axes. NaN in a line makes its results NaN.
Value quantile(Value x, const Value& q, std::optional<int64_t> dim, bool keepdim, const std::string& how, bool skip_nan) {
  if (!is_float(x.dtype()) || x.dtype() != q.dtype()) fail(Code::unsupported, "quantile of {} at {}", name_of(x.dtype()), name_of(q.dtype()));
  require_elements(x, "quantile", {});
  const int64_t rank = x.rank();
  if (!dim) x = reshape(x, {Dim(-1)});
  if (x.rank() == 0) x = reshape(x, {Dim(1)});
  const Axis axis = x.axis(dim.value_or(0));
  const Dim n = x.dim(axis), many = q.rank() == 0 ? Dim(1) : q.dim(0);
  const Value numbers = sum(logical_not(ir::map(Op::is_nan, {x})), {axis}, keep);
  Dims line(x.dims().size(), Dim(1)), wide = x.dims();
  line[static_cast<size_t>(axis)] = wide[static_cast<size_t>(axis)] = many;
  Value at = reshape(q, line) * (skip_nan ? cast(maximum(numbers - 1, 0), x.dtype()) : literal(x.graph(), n - Dim(1), x.dtype()));
  if (!skip_nan) at = select(numbers < Operand(n), literal(x.graph(), n - Dim(1), x.dtype()), at);  // NaN is last when sorted
  if (how == "lower")
    at = floor(at);
  else if (how == "higher")
    at = ceil(at);
  else if (how == "nearest")
    at = round(at);
  else if (how != "linear" && how != "midpoint")
    fail(Code::invalid_input, "quantile: interpolation \"{}\"", how);
  const Value sorted = sort(x, axis, false, false).first, low = floor(at);
  auto read = [&](const Value& place) { return take_along(sorted, axis, expand(cast(place, DType::i64), wide)); };
  Value y = read(low);
  if (how == "linear" || how == "midpoint") {
    const Value high = read(ceil(at)), part = how == "linear" ? at - low : select(equal(at, low), 0.0, 0.5);
    y = select(part < 0.5, y + (high - y) * part, high - (high - y) * (1.0 - part));
  }
  Axes order{axis};
  for (Axis a = 0; a < y.rank(); ++a) {
    if (a != axis) order.push_back(a);
  }
  Dims out(permute(y, order).dims());
  if (q.rank() == 0) out.erase(out.begin());
  if (keepdim && !dim) out.insert(out.end(), static_cast<size_t>(rank), Dim(1));
  if (keepdim && dim && rank > 0) out.insert(out.begin() + (q.rank() == 0 ? 0 : 1) + axis, Dim(1));
  return reshape(permute(y, order), out);
}

// Elements between min and max, counted in equal steps; the last bin has both of its ends.
Value histc(const Value& x, int64_t bins, const Scalar& min, const Scalar& max) {
  const double from = min.to_double(), to = max.to_double();
  if (is_bool(x.dtype())) fail(Code::unsupported, "histc of bools");
  Value flat = reshape(x, {Dim(-1)}), lo = literal(x.graph(), min, x.dtype()), hi = literal(x.graph(), max, x.dtype());
  if (from == to && !(flat.dim(0) == Dim(0))) {  // the range of the values; one of a single value is widened
    const Value least = amin(flat, {}), highest = amax(flat, {});
    lo = select(equal(least, highest), least - 1, least);
    hi = select(equal(least, highest), highest + 1, highest);
  }
  const Value steps = (flat - lo) * bins;
  Value place = minimum(is_float(x.dtype()) ? floor(steps / (hi - lo)) : ir::map(Op::floordiv, {steps, hi - lo}), bins - 1);
  Value inside = (flat >= lo) & (flat <= hi);
  // Each counts in its bin; those outside in one more, which nobody reads.
  Graph& g = x.graph();
  const Value number = cast(place, DType::i64), bin = select(inside & (number >= 0) & (number < bins), number, bins);
  const Value counts = scatter(full(g, {Dim(bins + 1)}, 0, DType::i64), {0}, {bin}, 0, false, full(g, bin.dims(), 1, DType::i64), "add");
  return cast(view(counts, slice_map(counts.dims(), 0, 0, bins, 1)), x.dtype());
}

const Definition reduction_rows[] = {
    {"embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type)", Types::each,
     [](Value table, Value index, double max_norm, double p) { return renormed_rows(table, index, max_norm, p); }},
    {"renorm(Tensor self, Scalar p, int dim, Scalar maxnorm)", [](Value x, Scalar p, int64_t d, Scalar max_norm) { return renorm(x, p.to_double(), d, max_norm.to_double()); }},
    {"sum(Tensor self, *, ScalarType? dtype=None)", [](Value x, std::optional<DType> t) { return summed(x, {}, false, t); }},
    {"prims::sum(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None)",
     [](Value x, std::optional<Axes> d, std::optional<DType> t) { return d && d->empty() ? (t ? cast(x, *t) : x) : summed(x, axes_of(d), false, t.value_or(x.dtype())); }},
    {"sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)",
     [](Value x, std::optional<Axes> d, bool k, std::optional<DType> t) { return summed(x, axes_of(d), k, t); }},
    {"mean(Tensor self, *, ScalarType? dtype=None)", [](Value x, std::optional<DType> t) { return mean_of(x, {}, false, t); }},
    {"mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)",
     [](Value x, std::optional<Axes> d, bool k, std::optional<DType> t) { return mean_of(x, axes_of(d), k, t); }},
    {"prod(Tensor self, *, ScalarType? dtype=None)", [](Value x, std::optional<DType> t) { return multiplied(x, {}, false, t); }},
    {"prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None)",
     [](Value x, int64_t d, bool k, std::optional<DType> t) { return multiplied(x, {d}, k, t); }},
    {"amax(Tensor self, int[1] dim=[], bool keepdim=False)", [](Value x, Axes d, bool k) { return extreme("max", x, d, Keep(k)); }},
    {"amin(Tensor self, int[1] dim=[], bool keepdim=False)", [](Value x, Axes d, bool k) { return extreme("min", x, d, Keep(k)); }},
    {"max(Tensor self)", [](Value x) { return extreme("max", x, {}, drop); }},
    {"min(Tensor self)", [](Value x) { return extreme("min", x, {}, drop); }},
    {"max.dim(Tensor self, int dim, bool keepdim=False)", [](Value x, int64_t d, bool k) { return extreme_and_place("max", "argmax", x, d, k); }},
    {"min.dim(Tensor self, int dim, bool keepdim=False)", [](Value x, int64_t d, bool k) { return extreme_and_place("min", "argmin", x, d, k); }},
    {"aminmax(Tensor self, *, int? dim=None, bool keepdim=False)",
     [](Value x, std::optional<int64_t> d, bool k) {
       Axes a;
       if (d) a.push_back(*d);
       return std::pair(extreme("min", x, a, Keep(k)), extreme("max", x, a, Keep(k)));
     }},
    {"argmax(Tensor self, int? dim=None, bool keepdim=False)", Types::numbers, [](Value x, std::optional<int64_t> d, bool k) { return arg("argmax", x, d, k); }},
    {"argmin(Tensor self, int? dim=None, bool keepdim=False)", Types::numbers, [](Value x, std::optional<int64_t> d, bool k) { return arg("argmin", x, d, k); }},
    {"any(Tensor self)", [](Value x) { return truth("any", x, {}, drop); }},
    {"any.dim(Tensor self, int dim, bool keepdim=False)", [](Value x, int64_t d, bool k) { return truth("any", x, {d}, Keep(k)); }},
    {"any.dims(Tensor self, int[]? dim=None, bool keepdim=False)", [](Value x, std::optional<Axes> d, bool k) { return truth("any", x, axes_of(d), Keep(k)); }},
    {"all(Tensor self)", [](Value x) { return truth("all", x, {}, drop); }},
    {"all.dim(Tensor self, int dim, bool keepdim=False)", [](Value x, int64_t d, bool k) { return truth("all", x, {d}, Keep(k)); }},
    {"all.dims(Tensor self, int[]? dim=None, bool keepdim=False)", [](Value x, std::optional<Axes> d, bool k) { return truth("all", x, axes_of(d), Keep(k)); }},
    {"count_nonzero.dim_IntList(Tensor self, int[] dim)", [](Value x, Axes d) { return sum(to_bool(x), d); }},
    {"count_nonzero(Tensor self, int? dim=None)",
     [](Value x, std::optional<int64_t> d) {
       Axes a;
       if (d) a.push_back(*d);
       return sum(to_bool(x), a);
     }},
    {"nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
     [](Value x, std::optional<Axes> d, bool k, std::optional<DType> t) { return summed(is_float(x.dtype()) ? select(ir::map(Op::is_nan, {x}), 0.0, x) : x, axes_of(d), k, t); }},
    {"var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)", Types::only_floats,
     [](Value x, std::optional<Axes> d, std::optional<double> c, bool k) { return variance(x, axes_of(d), c, k).first; }},
    {"std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)", Types::only_floats,
     [](Value x, std::optional<Axes> d, std::optional<double> c, bool k) { return deviation(x, axes_of(d), c, k).first; }},
    {"var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)", Types::only_floats,
     [](Value x, std::optional<Axes> d, std::optional<double> c, bool k) { return variance(x, axes_of(d), c, k); }},
    {"std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)", Types::only_floats,
     [](Value x, std::optional<Axes> d, std::optional<double> c, bool k) { return deviation(x, axes_of(d), c, k); }},
    {"var(Tensor self, bool unbiased=True)", Types::only_floats, [](Value x, bool u) { return variance(x, {}, u, false).first; }},
    {"std(Tensor self, bool unbiased=True)", Types::only_floats, [](Value x, bool u) { return deviation(x, {}, u, false).first; }},
    {"var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)", Types::only_floats,
     [](Value x, std::optional<Axes> d, bool u, bool k) { return variance(x, axes_of(d), u, k).first; }},
    {"std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)", Types::only_floats,
     [](Value x, std::optional<Axes> d, bool u, bool k) { return deviation(x, axes_of(d), u, k).first; }},
    {"var_mean(Tensor self, bool unbiased=True)", Types::only_floats, [](Value x, bool u) { return variance(x, {}, u, false); }},
    {"var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)", Types::only_floats,
     [](Value x, std::optional<Axes> d, bool u, bool k) { return variance(x, axes_of(d), u, k); }},
    {"std_mean(Tensor self, bool unbiased=True)", Types::only_floats, [](Value x, bool u) { return deviation(x, {}, u, false); }},
    {"std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)", Types::only_floats,
     [](Value x, std::optional<Axes> d, bool u, bool k) { return deviation(x, axes_of(d), u, k); }},
    {"cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None)", Types::each,
     [](Value x, int64_t correction, std::optional<Value> frequencies, std::optional<Value> weights) {
       if (frequencies || weights) fail(Code::unsupported, "cov with weights, which raises an error where they are negative");
       return cast(covariance(x, correction), float_type(x.dtype()));
     }},
    {"corrcoef(Tensor self)", [](Value x) { return cast(correlation(x), float_type(x.dtype())); }},
    {"linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
     [](Value x, Scalar p, std::optional<Axes> d, bool k, std::optional<DType> t) { return norm(x, p, axes_of(d), k, t); }},
    {"linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
     [](Value x, std::optional<Scalar> p, std::optional<Axes> d, bool k, std::optional<DType> t) { return linalg_norm(x, p, d, k, t); }},
    {"linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
     [](Value x, std::string ord, std::optional<Axes> d, bool k, std::optional<DType> t) {
       if (ord != "fro") fail(Code::unsupported, "linalg_norm: ord \"{}\" needs singular values", ord);
       return norm(x, 2, axes_of(d), k, t);
     }},
    {"linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None)",
     [](Value x, Scalar p, Axes d, bool k, std::optional<DType> t) { return linalg_norm(x, p, d, k, t); }},
    {"linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None)",
     [](Value x, std::string ord, Axes d, bool k, std::optional<DType> t) {
       if (ord != "fro") fail(Code::unsupported, "linalg_matrix_norm: ord \"{}\" needs singular values", ord);
       return norm(x, 2, d, k, t);
     }},
    {"norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False)",
     [](Value x, std::optional<Scalar> p, Axes d, bool k) { return norm(x, p.value_or(Scalar(2)), d, k, std::nullopt); }},
    {"norm.Scalar(Tensor self, Scalar p=2)", [](Value x, Scalar p) { return norm(x, p, {}, false, std::nullopt); }},
    {"histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0)", [](Value x, int64_t bins, Scalar lo, Scalar hi) { return histc(x, bins, lo, hi); }},
    {"median(Tensor self)", Types::numbers, [](Value x) { return median_of_all(x, false); }},
    {"nanmedian(Tensor self)", Types::numbers, [](Value x) { return median_of_all(x, true); }},
    {"median.dim(Tensor self, int dim, bool keepdim=False)", Types::numbers, [](Value x, int64_t d, bool k) { return median(x, d, k, false); }},
    {"nanmedian.dim(Tensor self, int dim, bool keepdim=False)", Types::numbers, [](Value x, int64_t d, bool k) { return median(x, d, k, true); }},
    {"mode(Tensor self, int dim=-1, bool keepdim=False)", [](Value x, int64_t d, bool k) { return mode(x, d, k); }},
    {"kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False)", Types::numbers, [](Value x, Dim k, int64_t d, bool keepdim) { return kth_value(x, k, d, keepdim); }},
    {"quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear')", Types::each,
     [](Value x, Value q, std::optional<int64_t> d, bool k, std::string how) { return quantile(x, q, d, k, how, false); }},
    {"quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear')",
     [](Value x, double q, std::optional<int64_t> d, bool k, std::string how) { return quantile(x, full(x.graph(), {}, q, x.dtype()), d, k, how, false); }},
    {"nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear')", Types::each,
     [](Value x, Value q, std::optional<int64_t> d, bool k, std::string how) { return quantile(x, q, d, k, how, true); }},
    {"nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear')",
     [](Value x, double q, std::optional<int64_t> d, bool k, std::string how) { return quantile(x, full(x.graph(), {}, q, x.dtype()), d, k, how, true); }},
    {"cummax(Tensor self, int dim)", [](Value x, int64_t d) { return running("max", x, d); }},
    {"cummin(Tensor self, int dim)", [](Value x, int64_t d) { return running("min", x, d); }},
    {"nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
     [](Value x, std::optional<Axes> d, bool k, std::optional<DType> t) {
       x = t ? cast(x, *t) : x;
       if (!is_float(x.dtype())) fail(Code::unsupported, "nanmean of {}", name_of(x.dtype()));
       const Value nan = ir::map(Op::is_nan, {x}), wide = widened(x);
       return cast(sum(select(nan, 0.0, wide), axes_of(d), Keep(k)) / sum(logical_not(nan), axes_of(d), Keep(k)), x.dtype());
     }},
    {"logsumexp(Tensor self, int[1] dim, bool keepdim=False)", [](Value x, Axes d, bool k) { return logsumexp(x, d, k); }},
    {"cumsum(Tensor self, int dim, *, ScalarType? dtype=None)", [](Value x, int64_t d, std::optional<DType> t) { return scanned("sum", x, d, t); }},
    {"cumprod(Tensor self, int dim, *, ScalarType? dtype=None)", [](Value x, int64_t d, std::optional<DType> t) { return scanned("prod", x, d, t); }},
    {"{logcumsumexp,_logcumsumexp}(Tensor self, int dim)", [](Value x, int64_t d) { return scan("logsumexp", x, d); }},
};

}  // namespace

std::span<const Definition> reduction_definitions() { return reduction_rows; }

}  // namespace ingot::ops
