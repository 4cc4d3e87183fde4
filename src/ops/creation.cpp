// Tensors made from sizes and numbers.
#include <cmath>

#include "base/error.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

DType type_of(const Scalar& s) { return s.is_bool() ? DType::b8 : s.is_integer() ? DType::i64 : DType::f32; }

Value arange(Graph& g, const Scalar& start, const Scalar& end, const Scalar& step, std::optional<DType> dtype) {
  bool integers = start.is_integer() && end.is_integer() && step.is_integer();
  DType t = dtype.value_or(integers ? DType::i64 : DType::f32);
  // As ATen: an int64 result counts in integers from the start, the narrower ones only once their number is known.
  auto whole = [](const Scalar& s) { return s.is_float() ? static_cast<int64_t>(s.to_double()) : s.to_int(); };
  auto dim = [&](const Scalar& s) { return std::holds_alternative<Dim>(s.value) ? std::get<Dim>(s.value) : Dim(whole(s)); };
  if (integers || t == DType::i64) {
    Dim from = dim(start), by = dim(step);
    Dim n = ceildiv(dim(end) - from, by);
    if (known_less(n, 0, g.symbols) != Truth::no) n = max(n, 0);
    Value i = iota(g, n);
    if (!(by == Dim(1))) i = i * Operand(by);
    if (!(from == Dim(0))) i = i + Operand(from);
    return cast(i, t);
  }
  double from = start.to_double(), by = step.to_double();
  double n = std::ceil((end.to_double() - from) / by);
  if (!(n >= 0)) fail(Code::invalid_input, "arange: from {} to {} by {}", from, end.to_double(), by);
  Value i = iota(g, static_cast<int64_t>(n));
  if (!is_float(t) && t != DType::b8) return cast(i * whole(step) + whole(start), t);
  return cast(cast(i, DType::f64) * by + from, t);
}

Value linspace(Graph& g, const Operand& start, const Operand& end, int64_t steps, std::optional<DType> dtype) {
  DType t = dtype.value_or(DType::f32), wide = is_float(t) ? t : DType::f64;
  // The ends are first converted to the result's dtype.
  auto value = [&](const Operand& o) { return cast(o.value ? cast(*o.value, t) : literal(g, o.number, t), wide); };
  Value from = value(start), to = value(end);
  if (steps == 1) return cast(expand(from, {Dim(1)}), t);
  Value step = (to - from) / static_cast<double>(steps - 1);
  Value i = iota(g, steps);
  // From both ends, so that the last one is exact.
  Value front = cast(i, wide) * step + from, back = to - cast((steps - 1) - i, wide) * step;
  return cast(select(i < Operand(steps / 2), front, back), t);
}

Value triangle(const Value& x, const Dim& diagonal, bool lower) {
  if (x.rank() < 2) fail(Code::invalid_input, "tril, triu: rank {} is below 2", x.rank());
  Graph& g = x.graph();
  Dims dims{x.dim(-2), x.dim(-1)};
  Value column_minus_row = ir::index(g, dims, 1) - ir::index(g, dims, 0);
  Value keep = lower ? column_minus_row <= Operand(diagonal) : column_minus_row >= Operand(diagonal);
  return select(keep, x, literal(g, 0, x.dtype()));
}

// Row and column of each element of a triangle, in the order of rows: [2, n]. Triangles of known sizes only, as in torch.
Value triangle_indices(Graph& g, int64_t rows, int64_t columns, int64_t diagonal, bool lower, DType t) {
  int64_t total = 0;
  auto clamped = [&](int64_t n) { return std::clamp<int64_t>(n, 0, columns); };
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = lower ? 0 : clamped(row + diagonal), end = lower ? clamped(row + diagonal + 1) : columns;
    total += end - first;
  }
  const Value row = ir::index(g, {rows, columns}, 0), column = ir::index(g, {rows, columns}, 1);
  const Value inside = reshape(lower ? column - row <= diagonal : column - row >= diagonal, {Dim(rows * columns)});
  const Value place = select(inside, scan("sum", cast(inside, DType::i64), 0) - 1, total);
  auto listed = [&](const Value& x) {
    const Value found = scatter(full(g, {Dim(total + 1)}, 0, DType::i64), {0}, {place}, 0, false, reshape(x, {Dim(rows * columns)}), "set");
    return unsqueeze(slice(found, 0, Dim(0), Dim(total), 1), 0);
  };
  return cast(concat({listed(row), listed(column)}, 0), t);
}

const Definition creation_rows[] = {
    {"zeros(SymInt[] size, *, ScalarType? dtype=None)", [](Graph& g, Dims d, std::optional<DType> t) { return full(g, d, 0, t.value_or(DType::f32)); }},
    {"ones(SymInt[] size, *, ScalarType? dtype=None)", [](Graph& g, Dims d, std::optional<DType> t) { return full(g, d, 1, t.value_or(DType::f32)); }},
    {"full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None)", [](Graph& g, Dims d, Scalar v, std::optional<DType> t) { return full(g, d, v, t.value_or(type_of(v))); }},
    // The contents of empty are undefined; zeros are as good as any.
    {"empty.memory_format(SymInt[] size, *, ScalarType? dtype=None)", [](Graph& g, Dims d, std::optional<DType> t) { return full(g, d, 0, t.value_or(DType::f32)); }},
    {"empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None)",
     [](Graph& g, Dims d, Axes, std::optional<DType> t) { return full(g, d, 0, t.value_or(DType::f32)); }},
    {"empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None)",
     [](Graph& g, Dims d, Dims, std::optional<DType> t) { return full(g, d, 0, t.value_or(DType::f32)); }},
    {"new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None)",
     [](Value x, Dims d, Dims, std::optional<DType> t) { return full(x.graph(), d, 0, t.value_or(x.dtype())); }},
    {"empty_like(Tensor self, *, ScalarType? dtype=None)", [](Value x, std::optional<DType> t) { return full(x.graph(), x.dims(), 0, t.value_or(x.dtype())); }},
    {"zeros_like(Tensor self, *, ScalarType? dtype=None)", [](Value x, std::optional<DType> t) { return full(x.graph(), x.dims(), 0, t.value_or(x.dtype())); }},
    {"ones_like(Tensor self, *, ScalarType? dtype=None)", [](Value x, std::optional<DType> t) { return full(x.graph(), x.dims(), 1, t.value_or(x.dtype())); }},
    {"full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None)",
     [](Value x, Scalar v, std::optional<DType> t) { return full(x.graph(), x.dims(), v, t.value_or(x.dtype())); }},
    {"new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None)", [](Value x, Dims d, std::optional<DType> t) { return full(x.graph(), d, 0, t.value_or(x.dtype())); }},
    {"new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None)", [](Value x, Dims d, std::optional<DType> t) { return full(x.graph(), d, 1, t.value_or(x.dtype())); }},
    {"new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None)",
     [](Value x, Dims d, Scalar v, std::optional<DType> t) { return full(x.graph(), d, v, t.value_or(x.dtype())); }},
    {"new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None)", [](Value x, Dims d, std::optional<DType> t) { return full(x.graph(), d, 0, t.value_or(x.dtype())); }},
    {"scalar_tensor(Scalar s, *, ScalarType? dtype=None)", [](Graph& g, Scalar s, std::optional<DType> t) { return full(g, {}, s, t.value_or(DType::f32)); }},
    {"arange(Scalar end, *, ScalarType? dtype=None)", [](Graph& g, Scalar end, std::optional<DType> t) { return arange(g, 0, end, 1, t); }},
    {"arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None)", [](Graph& g, Scalar start, Scalar end, std::optional<DType> t) { return arange(g, start, end, 1, t); }},
    {"arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None)",
     [](Graph& g, Scalar start, Scalar end, Scalar step, std::optional<DType> t) { return arange(g, start, end, step, t); }},
    {"linspace.{,Tensor_Tensor,Tensor_Scalar,Scalar_Tensor}({Scalar,Tensor,Tensor,Scalar} start, {Scalar,Tensor,Scalar,Tensor} end, int steps, *, ScalarType? dtype=None)",
     Types::each, [](Graph& g, Operand start, Operand end, int64_t steps, std::optional<DType> t) { return linspace(g, start, end, steps, t); }},
    {"eye(SymInt n, *, ScalarType? dtype=None)",
     [](Graph& g, Dim n, std::optional<DType> t) { return cast(equal(ir::index(g, {n, n}, 0), ir::index(g, {n, n}, 1)), t.value_or(DType::f32)); }},
    {"eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None)",
     [](Graph& g, Dim n, Dim m, std::optional<DType> t) { return cast(equal(ir::index(g, {n, m}, 0), ir::index(g, {n, m}, 1)), t.value_or(DType::f32)); }},
    {"tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=4)",
     [](Graph& g, int64_t rows, int64_t columns, int64_t offset, std::optional<DType> t) { return triangle_indices(g, rows, columns, offset, true, t.value_or(DType::i64)); }},
    {"triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=4)",
     [](Graph& g, int64_t rows, int64_t columns, int64_t offset, std::optional<DType> t) { return triangle_indices(g, rows, columns, offset, false, t.value_or(DType::i64)); }},
    {"tril(Tensor self, SymInt diagonal=0)", [](Value x, Dim d) { return triangle(x, d, true); }},
    {"triu(Tensor self, SymInt diagonal=0)", [](Value x, Dim d) { return triangle(x, d, false); }},
};

}  // namespace

std::span<const Definition> creation_definitions() { return creation_rows; }

}  // namespace ingot::ops
