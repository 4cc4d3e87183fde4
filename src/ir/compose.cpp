#include "ir/compose_nodes.h"

#include <algorithm>

#include "base/error.h"
#include "ir/half.h"

namespace ingot::ir {

Axis Handle::axis(Axis a) const {
  int64_t r = std::max<int64_t>(rank(), 1);
  if (a < -r || a >= r) fail(Code::invalid_input, "axis {} is outside a tensor of rank {}", a, rank());
  return a < 0 ? a + r : a;
}

Dim Handle::dim(Axis a) const {
  a = axis(a);
  return rank() == 0 ? Dim(1) : dims()[static_cast<size_t>(a)];
}

Dim read_size(Handle number, const std::optional<Dim>& bound) {
  Graph& g = number.graph();
  SymbolId s;
  if (!g.expected_sizes.empty()) {
    s = g.expected_sizes.front();
    g.expected_sizes.erase(g.expected_sizes.begin());
  } else {
    auto taken = [&](const std::string& name) { return std::any_of(g.symbols.begin(), g.symbols.end(), [&](const Symbol& x) { return x.name == name; }); };
    size_t n = 0;
    while (taken(fmt::format("d{}", n))) ++n;
    s = static_cast<SymbolId>(g.symbols.size());
    g.symbols.push_back({fmt::format("d{}", n)});
  }
  Symbol& symbol = g.symbols[s];
  if (bound) {
    symbol.max = std::max(symbol.min, std::min(symbol.max, bound->range(g.symbols).max));
    symbol.opt = std::clamp(symbol.opt, symbol.min, symbol.max);
    if (!bound->is_constant()) require(g, Dim::symbol(s), Check::less_equal, *bound, "a size that is read from data is within its bound");
  }
  g.outputs.push_back({reshape(cast(number, DType::i64), {}).id(), g.symbols[s].name, {}, Output::To::size});
  return Dim::symbol(s);
}

Handle make_node(Graph& g, Op op, std::vector<ValueId> in, Attributes attributes) {
  std::vector<Type> types = infer(g, op, in, attributes);
  return {&g, g.add(op, std::move(in), std::move(attributes), std::move(types[0]))};
}

std::pair<Handle, Handle> make_node2(Graph& g, Op op, std::vector<ValueId> in, Attributes attributes) {
  std::vector<Type> types = infer(g, op, in, attributes);
  NodeId id = g.add_node(op, std::move(in), std::move(attributes), std::move(types));
  return {Handle(&g, g.nodes[id].out[0]), Handle(&g, g.nodes[id].out[1])};
}

void require(Graph& g, const Dim& left, Check::Kind kind, const Dim& right, const char* why) {
  Truth t = kind == Check::equal ? known_equal(left, right, g.symbols) : known_less(left, right + Dim(1), g.symbols);
  if (t == Truth::yes) return;
  bool known = std::any_of(g.checks.begin(), g.checks.end(), [&](const Check& k) {
    return k.kind == kind && ((k.left == left && k.right == right) || (kind == Check::equal && k.left == right && k.right == left));
  });
  if (!known) g.checks.push_back({left, right, kind, g.current_origin, why});
}

Dims require_broadcast(Graph& g, const std::vector<Dims>& shapes) {
  Dims dims;
  for (const Dims& shape : shapes) {
    std::vector<Check> found;
    dims = broadcast(dims, shape, g.symbols, &found);
    for (const Check& c : found) require(g, c.left, c.kind, c.right, "the sizes of the operands are equal");
  }
  return dims;
}

Scalar converted(const Scalar& s, DType t) {
  if (is_bool(t)) {
    if (auto* d = std::get_if<double>(&s.value)) return *d != 0;
    if (auto* i = std::get_if<int64_t>(&s.value)) return *i != 0;
    return s;
  }
  if (is_float(t)) return s.to_double();
  int64_t v;
  if (auto* d = std::get_if<double>(&s.value)) {
    if (!(*d > -9223372036854775809.0 && *d < 9223372036854775808.0)) fail(Code::invalid_input, "the number {} does not fit {}", *d, name_of(t));
    v = static_cast<int64_t>(*d);
  } else {
    v = s.to_int();
  }
  switch (t) {
    case DType::u8: return int64_t{static_cast<uint8_t>(v)};
    case DType::i8: return int64_t{static_cast<int8_t>(v)};
    case DType::i16: return int64_t{static_cast<int16_t>(v)};
    case DType::i32: return int64_t{static_cast<int32_t>(v)};
    case DType::u16: return int64_t{static_cast<uint16_t>(v)};
    case DType::u32: return int64_t{static_cast<uint32_t>(v)};
    default: return v;
  }
}

namespace {

Handle operand_value(Graph& g, const Operand& o, DType t) {
  if (o.value) return cast(*o.value, t);
  return literal(g, o.number, t);
}

Graph& graph_of(const std::vector<Operand>& operands) {
  for (const Operand& o : operands) {
    if (o.value) return o.value->graph();
  }
  fail(Code::internal, "an expression without a tensor");
}

Handle map_as(Op op, const std::vector<Operand>& operands, DType t) {
  Graph& g = graph_of(operands);
  std::vector<ValueId> in;
  bool weak = true;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& o = operands[i];
    bool condition = op == Op::select && i == 0;
    in.push_back(condition ? to_bool(operand_value(g, o, o.value ? o.value->dtype() : DType::b8)).id() : operand_value(g, o, t).id());
    weak = weak && (!o.value || o.value->weak());
  }
  std::vector<Dims> shapes;
  for (ValueId v : in) shapes.push_back(g.type(v).dims);
  require_broadcast(g, shapes);
  Handle h = make_node(g, op, std::move(in), {});
  return Handle(&g, h.id(), weak);
}

}  // namespace

Handle map(Op op, std::vector<Operand> operands) {
  std::span<const Operand> typed = operands;
  if (op == Op::select) typed = typed.subspan(1);
  return map_as(op, operands, result_type(typed));
}

Handle float_map(Op op, std::vector<Operand> operands) { return map_as(op, operands, float_type(result_type(operands))); }

Handle operator+(const Handle& a, const Operand& b) { return map(Op::add, {a, b}); }
Handle operator-(const Handle& a, const Operand& b) { return map(Op::sub, {a, b}); }
Handle operator*(const Handle& a, const Operand& b) { return map(Op::mul, {a, b}); }
Handle operator/(const Handle& a, const Operand& b) { return float_map(Op::div, {a, b}); }
Handle operator<(const Handle& a, const Operand& b) { return map(Op::lt, {a, b}); }
Handle operator<=(const Handle& a, const Operand& b) { return map(Op::le, {a, b}); }
Handle operator>(const Handle& a, const Operand& b) { return map(Op::gt, {a, b}); }
Handle operator>=(const Handle& a, const Operand& b) { return map(Op::ge, {a, b}); }
Handle operator&(const Handle& a, const Operand& b) { return map(Op::bit_and, {a, b}); }
Handle operator|(const Handle& a, const Operand& b) { return map(Op::bit_or, {a, b}); }
Handle operator^(const Handle& a, const Operand& b) { return map(Op::bit_xor, {a, b}); }
Handle operator-(const Handle& a) { return map(Op::neg, {a}); }
Handle operator+(const Scalar& a, const Handle& b) { return map(Op::add, {a, b}); }
Handle operator-(const Scalar& a, const Handle& b) { return map(Op::sub, {a, b}); }
Handle operator*(const Scalar& a, const Handle& b) { return map(Op::mul, {a, b}); }
Handle operator/(const Scalar& a, const Handle& b) { return float_map(Op::div, {a, b}); }
Handle equal(const Handle& a, const Operand& b) { return map(Op::eq, {a, b}); }
Handle not_equal(const Handle& a, const Operand& b) { return map(Op::ne, {a, b}); }

Handle to_bool(Handle x) { return cast(x, DType::b8); }
Handle logical_not(Handle x) { return map(Op::logical_not, {to_bool(x)}); }

Handle clamp(Handle x, const std::optional<Operand>& lo, const std::optional<Operand>& hi) {
  std::vector<Operand> all{x};
  if (lo) all.push_back(*lo);
  if (hi) all.push_back(*hi);
  DType t = result_type(all);
  const bool by_numbers = (lo && !lo->value) || (hi && !hi->value);
  if (is_bool(t) && (by_numbers || (lo && hi))) fail(Code::unsupported, "clamp of bools");  // as in eager, which takes one tensor
  // Of two zeros min and max give the second: as in eager x's before a number, a tensor's before x's.
  auto bounded = [&](Op op, const Operand& by) { x = by.value ? map_as(op, {x, by}, t) : map_as(op, {by, x}, t); };
  if (lo) bounded(Op::max, *lo);
  if (hi) bounded(Op::min, *hi);
  return cast(x, t);
}

namespace {

double rounded(double v, DType t) {
  const auto f = static_cast<float>(v);
  switch (t) {
    case DType::f16: return f16_to_float(float_to_f16(f));
    case DType::bf16: return bf16_to_float(float_to_bf16(f));
    case DType::f32: return f;
    default: return v;
  }
}

}  // namespace

Handle cast_node(const Handle& x, DType to) {
  Graph& g = x.graph();
  return Handle(&g, make_node(g, Op::cast, {x.id()}, {{"dtype", to}}).id(), x.weak());
}

Handle cast(Handle x, DType dtype) {
  if (x.dtype() == dtype) return x;
  if (is_wide_unsigned(x.dtype())) return from_wide_unsigned(x, dtype);
  Graph& g = x.graph();
  const Node& producer = g.producer(x.id());
  if (producer.op == Op::literal && !is_complex(dtype)) {
    // Integers and bools convert exactly; a float is what its type holds of it, unless it is a bare number, which takes any type as it is.
    Scalar value = producer.attributes.scalar("value");
    if (!x.weak() && is_float(x.dtype()) && is_float(dtype)) value = rounded(value.to_double(), x.dtype());
    if (!(is_float(producer.attributes.dtype("dtype")) && !is_float(dtype) && !is_bool(dtype))) {
      return Handle(&g, literal(g, converted(value, dtype), dtype).id(), x.weak());
    }
  }
  return is_wide_unsigned(dtype) ? to_wide_unsigned(x, dtype) : cast_node(x, dtype);
}

Handle bitcast(Handle x, DType dtype) {
  const DType from = x.dtype();
  if (is_complex(from) || is_complex(dtype) || size_of(from) != size_of(dtype)) fail(Code::internal, "the bits of {} as {}", name_of(from), name_of(dtype));
  if (from == dtype) return x;
  if (is_wide_unsigned(from) && is_float(dtype)) return bitcast(cast(x, signed_type(from)), dtype);
  if (is_wide_unsigned(dtype) && is_float(from)) return cast(bitcast(x, signed_type(dtype)), dtype);
  if (!is_float(from) && !is_float(dtype)) return cast(x, dtype);  // keeps the bits
  if (is_float(from) && is_float(dtype)) return bitcast(bitcast(x, DType::i16), dtype);  // the two half types
  Graph& g = x.graph();
  return Handle(&g, make_node(g, Op::bitcast, {x.id()}, {{"dtype", dtype}}).id());
}

namespace {

// As torch converts a number: what is out of the dtype's range is an error, but for negative numbers as unsigned ones, which wrap.
void require_fits(const Scalar& s, DType t) {
  if (s.is_bool() || is_bool(t)) return;
  const double v = s.to_double();
  auto within = [&](double low, double high) { return v >= low && v <= high; };
  bool fits = true;
  switch (t) {
    case DType::u8: fits = within(-255, 255); break;
    case DType::i8: fits = within(-128, 127); break;
    case DType::i16: fits = within(-32768, 32767); break;
    case DType::i32: fits = within(-2147483648.0, 2147483647); break;
    case DType::u16: fits = within(-65535, 65535); break;
    case DType::u32: fits = within(-4294967295.0, 4294967295.0); break;
    case DType::i64: fits = within(-9223372036854775808.0, 9223372036854775807.0); break;
    default: break;
  }
  if (!fits) fail(Code::unsupported, "the number {} does not fit {}", v, name_of(t));
}

}  // namespace

Handle literal(Graph& g, Scalar value, DType dtype) {
  if (auto* d = std::get_if<Dim>(&value.value)) {
    Handle size = make_node(g, Op::size, {}, {{"dim", *d}});
    return cast(Handle(&g, size.id(), true), dtype);
  }
  require_fits(value, dtype);
  Handle h = make_node(g, Op::literal, {}, {{"value", to_attribute(converted(value, dtype))}, {"dtype", dtype}});
  return Handle(&g, h.id(), true);
}

Handle full(Graph& g, Dims dims, Scalar value, DType dtype) {
  // A tensor's elements are numbers of its type; a number beside tensors of halves is not.
  if (auto* d = std::get_if<double>(&value.value)) value = rounded_to(dtype, *d);
  Handle x = literal(g, std::move(value), dtype);
  return expand(Handle(&g, x.id()), std::move(dims));
}

Handle index(Graph& g, Dims dims, Axis axis) { return make_node(g, Op::index, {}, {{"dims", to_attribute(dims)}, {"axis", axis}}); }

Handle iota(Graph& g, Dim n) { return index(g, {std::move(n)}, 0); }

// ---- kernels

Handle reduce(const char* kind, Handle x, Axes axes, Keep keep) {
  std::string_view k = kind;
  // ATen accumulates integers in i64, also for bool.
  if ((k == "sum" || k == "prod") && (is_integer(x.dtype()) || is_bool(x.dtype()))) x = cast(x, DType::i64);
  if (k == "any" || k == "all") x = to_bool(x);
  for (Axis& a : axes) a = x.axis(a);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) fail(Code::invalid_input, "{}: an axis appears twice", kind);
  if (x.rank() == 0) axes.clear();
  if (k == "max" || k == "min" || k == "argmax" || k == "argmin") {
    Dim n = count(x, axes);
    if (n == Dim(0)) fail(Code::invalid_input, "{}: no elements to reduce over", kind);
  }
  return make_node(x.graph(), Op::reduce, {x.id()}, {{"kind", kind}, {"axes", to_attribute(axes)}, {"keep", static_cast<bool>(keep)}});
}

Dim count(Handle x, const Axes& axes) {
  if (axes.empty()) return x.numel();
  Dim n = 1;
  for (Axis a : axes) n *= x.dim(a);
  return n;
}

Handle mean(Handle x, Axes axes, Keep k) {
  Dim n = count(x, axes);
  DType t = x.dtype();
  // Half sums stay wide until they are divided.
  Handle s = sum(is_float(t) && size_of(t) == 2 ? cast(x, DType::f32) : x, std::move(axes), k);
  return cast(s / Operand(Scalar(n)), t);
}

Handle scan(const char* kind, Handle x, Axis axis) {
  std::string_view k = kind;
  if ((k == "sum" || k == "prod") && (is_integer(x.dtype()) || is_bool(x.dtype()))) x = cast(x, DType::i64);
  if (x.rank() == 0) {
    x.axis(axis);
    return x;
  }
  return make_node(x.graph(), Op::scan, {x.id()}, {{"kind", kind}, {"axis", x.axis(axis)}});
}

Handle concat(std::vector<Handle> parts, Axis axis) {
  if (parts.empty()) fail(Code::invalid_input, "cat: no tensors");
  std::vector<Operand> all(parts.begin(), parts.end());
  DType t = result_type(all);
  // ATen drops 1-d tensors of size 0 beside tensors of another rank.
  std::vector<Handle> kept;
  for (const Handle& p : parts) {
    bool legacy = p.rank() == 1 && p.dim(0) == Dim(0);
    if (!legacy || std::all_of(parts.begin(), parts.end(), [](const Handle& x) { return x.rank() == 1; })) kept.push_back(p);
  }
  if (kept.empty()) kept.push_back(parts[0]);
  Graph& g = kept[0].graph();
  axis = kept[0].axis(axis);
  if (kept.size() == 1) return cast(kept[0], t);
  std::vector<ValueId> in;
  for (const Handle& p : kept) {
    in.push_back(cast(p, t).id());
    for (size_t d = 0; p.rank() == kept[0].rank() && d < p.dims().size(); ++d) {
      bool joined = static_cast<Axis>(d) == axis;
      if (!joined && known_equal(p.dims()[d], kept[0].dims()[d], g.symbols) != Truth::no) {
        require(g, p.dims()[d], Check::equal, kept[0].dims()[d], "joined tensors have equal sizes besides the joined axis");
      }
    }
  }
  return make_node(g, Op::concat, std::move(in), {{"axis", axis}});
}

Handle gather(Handle table, std::vector<int64_t> axes, std::vector<Handle> indices, int64_t position, bool wrap) {
  std::vector<ValueId> in{table.id()};
  std::vector<Dims> shapes;
  for (const Handle& i : indices) {
    in.push_back(cast(i, DType::i64).id());
    shapes.push_back(i.dims());
  }
  require_broadcast(table.graph(), shapes);
  return make_node(table.graph(), Op::gather, std::move(in), {{"axes", to_attribute(axes)}, {"position", position}, {"wrap", wrap}});
}

Handle take_along(Handle table, Axis axis, Handle at) {
  axis = table.axis(axis);
  if (table.rank() == 0 && at.rank() == 0) return squeeze(take_along(unsqueeze(table, 0), 0, unsqueeze(at, 0)), 0);
  return make_node(table.graph(), Op::take_along, {table.id(), cast(at, DType::i64).id()}, {{"axis", axis}});
}

Handle scatter(Handle base, std::vector<int64_t> axes, std::vector<Handle> indices, int64_t position, bool wrap, Handle updates, const char* kind) {
  std::vector<ValueId> in{base.id(), cast(updates, base.dtype()).id()};
  for (const Handle& i : indices) in.push_back(cast(i, DType::i64).id());
  return make_node(base.graph(), Op::scatter, std::move(in), {{"axes", to_attribute(axes)}, {"position", position}, {"wrap", wrap}, {"kind", kind}});
}

Handle reduce_segments(Handle x, Handle order, Handle ends, const char* kind) {
  return make_node(x.graph(), Op::reduce_segments, {x.id(), order.id(), ends.id()}, {{"kind", kind}});
}

Handle scatter_along(Handle base, Axis axis, Handle at, Handle updates, const char* kind) {
  axis = base.axis(axis);
  if (base.rank() == 0 && at.rank() == 0 && updates.rank() == 0) {
    return squeeze(scatter_along(unsqueeze(base, 0), 0, unsqueeze(at, 0), unsqueeze(updates, 0), kind), 0);
  }
  return make_node(base.graph(), Op::scatter_along, {base.id(), cast(at, DType::i64).id(), cast(updates, base.dtype()).id()}, {{"axis", axis}, {"kind", kind}});
}

std::pair<Handle, Handle> sort(Handle x, Axis axis, bool descending, bool stable) {
  if (x.rank() == 0) {
    x.axis(axis);
    auto [values, indices] = sort(unsqueeze(x, 0), 0, descending, stable);
    return {squeeze(values, 0), squeeze(indices, 0)};
  }
  if (is_wide_unsigned(x.dtype())) {
    auto [values, indices] = sort(in_order_of_signed(x), axis, descending, stable);
    return {of_order_of_signed(values, x.dtype()), indices};
  }
  return make_node2(x.graph(), Op::sort, {x.id()}, {{"axis", x.axis(axis)}, {"descending", descending}, {"stable", stable}});
}

std::pair<Handle, Handle> moments(Handle x, const Axes& axes) { return make_node2(x.graph(), Op::moments, {x.id()}, {{"axes", to_attribute(axes)}}); }

std::pair<Handle, Handle> topk(Handle x, Dim k, Axis axis, bool largest, bool sorted) {
  axis = x.axis(axis);
  if (x.rank() == 0) {
    auto [values, indices] = topk(unsqueeze(x, 0), k, 0, largest, sorted);
    if (!(k == Dim(1))) return {values, indices};
    return {squeeze(values, 0), squeeze(indices, 0)};
  }
  if (known_less(x.dim(axis), k, x.graph().symbols) == Truth::yes) {
    fail(Code::invalid_input, "topk: k = {} is larger than the axis of size {}", k.text(x.graph().symbols), x.dim(axis).text(x.graph().symbols));
  }
  require(x.graph(), k, Check::less_equal, x.dim(axis), "topk takes at most as many elements as the axis has");
  return make_node2(x.graph(), Op::topk, {x.id()}, {{"axis", axis}, {"k", k}, {"largest", largest}, {"sorted", sorted}});
}

namespace {

// All axes but the last two.
Dims batch_dims(const Handle& x) { return {x.dims().begin(), x.dims().end() - 2}; }

}  // namespace

Handle matmul(Handle a, Handle b, Attributes attributes) {
  if (a.rank() == 0 || b.rank() == 0) fail(Code::invalid_input, "matmul: a 0-d operand");
  bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a = unsqueeze(a, 0);
  if (column) b = unsqueeze(b, 1);
  if (is_bool(a.dtype())) fail(Code::unsupported, "matmul of bools");
  if (a.dtype() != b.dtype()) fail(Code::invalid_input, "matmul: operands have dtypes {} and {}", name_of(a.dtype()), name_of(b.dtype()));
  Graph& g = a.graph();
  Dim inner_a = a.dims().back(), inner_b = b.dims()[b.dims().size() - 2];
  Handle y = make_node(g, Op::matmul, {a.id(), b.id()}, std::move(attributes));
  require(g, inner_a, Check::equal, inner_b, "the inner sizes of matmul are equal");
  require_broadcast(g, {batch_dims(a), batch_dims(b)});
  if (column) y = squeeze(y, -1);
  if (row) y = take(y, column ? -1 : -2, 0);
  return y;
}

Handle ragged_matmul(Handle a, Handle b, Handle row_ends) {
  Graph& g = a.graph();
  Handle y = make_node(g, Op::ragged_matmul, {a.id(), b.id(), row_ends.id()}, {});
  require(g, row_ends.dim(0), Check::equal, b.dim(0), "each group has a matrix");
  require(g, a.dim(1), Check::equal, b.dim(1), "the inner sizes of a grouped product are equal");
  return y;
}

Handle attention(Handle q, Handle k, Handle v, std::optional<Handle> mask, double scale, bool causal, std::optional<Handle> filled) {
  std::vector<ValueId> in{q.id(), k.id(), v.id()};
  if (mask) in.push_back(mask->id());
  if (filled) in.push_back(filled->id());
  Graph& g = q.graph();
  Attributes attributes{{"scale", scale}, {"causal", causal}};
  if (filled) attributes.set("filled", true);
  Handle y = make_node(g, Op::attention, std::move(in), std::move(attributes));
  require(g, q.dims().back(), Check::equal, k.dims().back(), "query and key have equal head sizes");
  require(g, k.dim(-2), Check::equal, v.dim(-2), "key and value have equal lengths");
  require_broadcast(g, {batch_dims(q), batch_dims(k), batch_dims(v)});
  if (mask) {
    Dims scores = batch_dims(y);
    scores.insert(scores.end(), {q.dim(-2), k.dim(-2)});
    require_broadcast(g, {scores, mask->dims()});
  }
  return y;
}

// ---- small matrices

namespace {

std::vector<Handle> make_nodes(Graph& g, Op op, std::vector<ValueId> in, Attributes attributes) {
  std::vector<Type> types = infer(g, op, in, attributes);
  const NodeId id = g.add_node(op, std::move(in), std::move(attributes), std::move(types));
  std::vector<Handle> out;
  for (ValueId v : g.nodes[id].out) out.emplace_back(&g, v);
  return out;
}

// Expands the batch axes of both.
void broadcast_batches(Handle& a, Handle& b) {
  if (a.rank() < 2 || b.rank() < 2) fail(Code::invalid_input, "a matrix has two axes");
  const Dims batch = require_broadcast(a.graph(), {batch_dims(a), batch_dims(b)});
  for (Handle* x : {&a, &b}) {
    Dims dims = batch;
    dims.insert(dims.end(), {x->dim(-2), x->dim(-1)});
    *x = expand(*x, dims);
  }
  require(a.graph(), a.dim(-1), Check::equal, b.dim(-2), "both sides have as many rows");
}

}  // namespace

Lu lu(Handle a) {
  const std::vector<Handle> out = make_nodes(a.graph(), Op::lu, {a.id()}, {});
  return {out[0], out[1], out[2]};
}

std::pair<Handle, Handle> solve(Handle a, Handle b) {
  broadcast_batches(a, b);
  return make_node2(a.graph(), Op::solve, {a.id(), b.id()}, {});
}

std::pair<Handle, Handle> inverse(Handle a) { return make_node2(a.graph(), Op::inverse, {a.id()}, {}); }

Determinant determinant(Handle a) {
  const std::vector<Handle> out = make_nodes(a.graph(), Op::determinant, {a.id()}, {});
  return {out[0], out[1], out[2]};
}

std::pair<Handle, Handle> cholesky(Handle a) { return make_node2(a.graph(), Op::cholesky, {a.id()}, {}); }

Handle solve_triangular(Handle a, Handle b, bool upper, bool unit) {
  broadcast_batches(a, b);
  return make_node(a.graph(), Op::solve_triangular, {a.id(), b.id()}, {{"upper", upper}, {"unit", unit}});
}

std::pair<Handle, Handle> qr(Handle a, bool complete) { return make_node2(a.graph(), Op::qr, {a.id()}, {{"complete", complete}}); }

// ---- Fourier transforms

namespace {

Attributes along(int64_t axes, Attributes attributes = {}) {
  if (axes > 1) attributes.set("axes", axes);
  return attributes;
}

}  // namespace

int64_t fourier_axes(const Attributes& a) { return a.find("axes") == nullptr ? 1 : a.integer("axes"); }

std::pair<Handle, Handle> fourier(Handle re, Handle im, int64_t axes) { return make_node2(re.graph(), Op::fourier, {re.id(), im.id()}, along(axes)); }

std::pair<Handle, Handle> fourier_of_real(Handle x, int64_t axes) { return make_node2(x.graph(), Op::fourier_of_real, {x.id()}, along(axes)); }

Handle fourier_to_real(Handle re, Handle im, Dim length, int64_t axes) {
  return make_node(re.graph(), Op::fourier_to_real, {re.id(), im.id()}, along(axes, {{"length", std::move(length)}}));
}

Handle grid_sample(Handle x, Handle grid, const char* mode, const char* outside, bool corners, bool channels_last) {
  return make_node(x.graph(), Op::grid_sample, {x.id(), grid.id()},
                   {{"mode", std::string(mode)}, {"outside", std::string(outside)}, {"corners", corners}, {"channels_last", channels_last}});
}

}  // namespace ingot::ir
