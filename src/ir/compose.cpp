#include "ir/compose.h"

#include <algorithm>

#include "base/error.h"

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

namespace {

// A node whose result type is inferred.
Handle node(Graph& g, Op op, std::vector<ValueId> in, Attributes attributes) {
  std::vector<Type> types = infer(g, op, in, attributes);
  return {&g, g.add(op, std::move(in), std::move(attributes), std::move(types[0]))};
}

std::pair<Handle, Handle> node2(Graph& g, Op op, std::vector<ValueId> in, Attributes attributes) {
  std::vector<Type> types = infer(g, op, in, attributes);
  NodeId id = g.add_node(op, std::move(in), std::move(attributes), std::move(types));
  return {Handle(&g, g.nodes[id].out[0]), Handle(&g, g.nodes[id].out[1])};
}

// Sizes that broadcasting assumes equal without knowing become checks at run time.
void note_checks(Graph& g, const std::vector<ValueId>& in) {
  Dims dims;
  for (ValueId v : in) {
    std::vector<Check> found;
    dims = broadcast(dims, g.type(v).dims, g.symbols, &found);
    for (Check& c : found) {
      c.origin = g.current_origin;
      bool known = std::any_of(g.checks.begin(), g.checks.end(), [&](const Check& k) {
        return k.kind == c.kind && ((k.left == c.left && k.right == c.right) || (k.left == c.right && k.right == c.left));
      });
      if (!known) g.checks.push_back(std::move(c));
    }
  }
}

Scalar converted(const Scalar& s, DType t) {
  if (is_bool(t)) {
    if (auto* d = std::get_if<double>(&s.value)) return *d != 0;
    if (auto* i = std::get_if<int64_t>(&s.value)) return *i != 0;
    return s;
  }
  if (is_float(t)) return s.to_double();
  if (auto* d = std::get_if<double>(&s.value)) return static_cast<int64_t>(*d);
  int64_t v = s.to_int();
  switch (t) {  // wraps, as a cast does
    case DType::u8: return int64_t{static_cast<uint8_t>(v)};
    case DType::i8: return int64_t{static_cast<int8_t>(v)};
    case DType::i16: return int64_t{static_cast<int16_t>(v)};
    case DType::i32: return int64_t{static_cast<int32_t>(v)};
    default: return v;
  }
}

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
  note_checks(g, in);
  Handle h = node(g, op, std::move(in), {});
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
  if (lo) x = map_as(Op::max, {x, *lo}, t);
  if (hi) x = map_as(Op::min, {x, *hi}, t);
  return cast(x, t);
}

Handle cast(Handle x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Graph& g = x.graph();
  const Node& producer = g.producer(x.id());
  if (producer.op == Op::literal && !is_complex(dtype)) {
    // Half literals are rounded where they are used; integers and bools convert exactly.
    Scalar value = producer.attributes.scalar("value");
    if (!(is_float(producer.attributes.dtype("dtype")) && !is_float(dtype) && !is_bool(dtype))) {
      return Handle(&g, literal(g, converted(value, dtype), dtype).id(), x.weak());
    }
  }
  return Handle(&g, node(g, Op::cast, {x.id()}, {{"dtype", dtype}}).id(), x.weak());
}

Handle literal(Graph& g, Scalar value, DType dtype) {
  if (auto* d = std::get_if<Dim>(&value.value)) {
    Handle size = node(g, Op::size, {}, {{"dim", *d}});
    return cast(Handle(&g, size.id(), true), dtype);
  }
  Handle h = node(g, Op::literal, {}, {{"value", to_attribute(converted(value, dtype))}, {"dtype", dtype}});
  return Handle(&g, h.id(), true);
}

Handle full(Graph& g, Dims dims, Scalar value, DType dtype) {
  Handle x = literal(g, std::move(value), dtype);
  return expand(Handle(&g, x.id()), std::move(dims));
}

Handle index(Graph& g, Dims dims, Axis axis) {
  return node(g, Op::index, {}, {{"dims", to_attribute(dims)}, {"axis", axis}});
}

Handle iota(Graph& g, Dim n) { return index(g, {std::move(n)}, 0); }

// ---- views

Handle view(Handle x, AffineMap map) {
  if (is_identity(map, x.dims())) return x;
  return node(x.graph(), Op::view, {x.id()}, {{"map", std::move(map)}});
}

Handle reshape(Handle x, Dims dims) {
  Graph& g = x.graph();
  Dim known = 1;
  std::optional<size_t> open;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim(-1)) {
      if (open) fail(Code::invalid_input, "reshape: only one size may be -1");
      open = i;
    } else {
      known *= dims[i];
    }
  }
  Dim total = x.numel();
  if (open) {
    if (known == Dim(0)) fail(Code::invalid_input, "reshape: -1 stands for any size beside a size of 0");
    dims[*open] = floordiv(total, known);
    known *= dims[*open];
  }
  if (dims == x.dims()) return x;
  Truth equal = known_equal(known, total, g.symbols);
  if (equal == Truth::no) {
    fail(Code::invalid_input, "reshape: {} elements do not make a shape of {}", total.text(g.symbols), known.text(g.symbols));
  }
  if (equal == Truth::unknown) g.checks.push_back({known, total, Check::equal, g.current_origin, "reshape keeps the number of elements"});
  return node(g, Op::reshape, {x.id()}, {{"dims", to_attribute(dims)}});
}

Handle permute(Handle x, Axes order) {
  if (static_cast<int64_t>(order.size()) != x.rank()) fail(Code::invalid_input, "permute: {} axes for rank {}", order.size(), x.rank());
  std::vector<bool> seen(order.size(), false);
  for (Axis& a : order) {
    a = x.axis(a);
    if (seen[static_cast<size_t>(a)]) fail(Code::invalid_input, "permute: axis {} appears twice", a);
    seen[static_cast<size_t>(a)] = true;
  }
  return view(x, permute_map(x.dims(), order));
}

Handle transpose(Handle x, Axis a, Axis b) {
  a = x.axis(a);
  b = x.axis(b);
  if (x.rank() == 0 || a == b) return x;
  Axes order;
  for (Axis i = 0; i < x.rank(); ++i) order.push_back(i == a ? b : i == b ? a : i);
  return permute(x, order);
}

Handle expand(Handle x, Dims dims) {
  if (static_cast<int64_t>(dims.size()) < x.rank()) fail(Code::invalid_input, "expand: {} sizes for rank {}", dims.size(), x.rank());
  Graph& g = x.graph();
  size_t lead = dims.size() - x.dims().size();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i < lead) {
      if (dims[i] == Dim(-1)) fail(Code::invalid_input, "expand: -1 for the new leading axis {}", i);
      continue;
    }
    const Dim& from = x.dims()[i - lead];
    if (dims[i] == Dim(-1)) dims[i] = from;
    if (from == Dim(1) || from == dims[i]) continue;
    if (known_equal(from, dims[i], g.symbols) == Truth::no) {
      fail(Code::invalid_input, "expand: axis {} has size {}, which cannot become {}", i, from.text(g.symbols), dims[i].text(g.symbols));
    }
    g.checks.push_back({from, dims[i], Check::equal, g.current_origin, "expand keeps sizes other than 1"});
  }
  AffineMap map = expand_map(x.dims(), dims);
  return view(x, std::move(map));
}

Handle unsqueeze(Handle x, Axis axis) {
  int64_t r = x.rank() + 1;
  if (axis < -r || axis >= r) fail(Code::invalid_input, "unsqueeze: axis {} is outside rank {}", axis, r);
  if (axis < 0) axis += r;
  AffineMap map;
  for (int64_t i = 0; i < x.rank(); ++i) map.axes.push_back({0, {{static_cast<uint32_t>(i < axis ? i : i + 1), 1}}});
  map.dims = x.dims();
  map.dims.insert(map.dims.begin() + axis, Dim(1));
  return view(x, std::move(map));
}

Handle squeeze(Handle x, Axis axis) {
  axis = x.axis(axis);
  if (x.rank() == 0 || !(x.dim(axis) == Dim(1))) return x;
  return view(x, select_map(x.dims(), axis, 0));
}

Handle slice(Handle x, Axis axis, std::optional<Dim> start, std::optional<Dim> end, int64_t step) {
  if (x.rank() == 0) fail(Code::invalid_input, "slice: a 0-d tensor has no axes");
  if (step <= 0) fail(Code::invalid_input, "slice: step {} is not positive", step);
  axis = x.axis(axis);
  Dim size = x.dim(axis);
  const Graph& g = x.graph();
  // Python's rules: negative counts from the end, then clamped to 0..size.
  auto clamped = [&](const Dim& d) -> Dim {
    if (auto c = d.constant(); c && *c == INT64_MAX) return size;
    Dim v = d;
    Range r = v.range(g.symbols);
    if (r.max < 0) {
      v = v + size;
    } else if (r.min < 0) {
      fail(Code::unsupported, "slice: a bound {} whose sign is not known", v.text(g.symbols));
    }
    if (v == size) return size;
    if (known_less(v, 0, g.symbols) != Truth::no) v = max(v, 0);
    if (known_less(size, v, g.symbols) != Truth::no) v = min(v, size);
    return v;
  };
  Dim from = start ? clamped(*start) : Dim(0), to = end ? clamped(*end) : size;
  Dim length = to - from;
  if (known_less(length, 0, g.symbols) != Truth::no) length = max(length, 0);
  if (step != 1) length = ceildiv(length, step);
  return view(x, slice_map(x.dims(), axis, from, length, step));
}

Handle take(Handle x, Axis axis, Dim at) {
  if (x.rank() == 0) fail(Code::invalid_input, "select: a 0-d tensor has no axes");
  axis = x.axis(axis);
  const Graph& g = x.graph();
  Dim size = x.dim(axis);
  if (at.range(g.symbols).max < 0) at = at + size;
  if (known_less(at, size, g.symbols) == Truth::no || at.range(g.symbols).max < 0) {
    fail(Code::invalid_input, "select: index {} is outside an axis of size {}", at.text(g.symbols), size.text(g.symbols));
  }
  if (known_less(at, size, g.symbols) == Truth::unknown) {
    x.graph().checks.push_back({at + Dim(1), size, Check::less_equal, g.current_origin, "the selected index exists"});
  }
  return view(x, select_map(x.dims(), axis, std::move(at)));
}

Handle pad(Handle x, const Dims& before, const Dims& after, Scalar fill) {
  AffineMap map;
  for (size_t i = 0; i < x.dims().size(); ++i) {
    map.dims.push_back(x.dims()[i] + before[i] + after[i]);
    map.axes.push_back({-before[i], {{static_cast<uint32_t>(i), 1}}});
    Truth negative = known_less(map.dims.back(), 0, x.graph().symbols);
    if (negative == Truth::yes) fail(Code::invalid_input, "pad: axis {} would get a negative size", i);
  }
  map.fill = converted(fill, x.dtype());
  return node(x.graph(), Op::view, {x.id()}, {{"map", std::move(map)}});
}

Handle flip(Handle x, Axes axes) {
  AffineMap map = permute_map(x.dims(), [&] {
    Axes order;
    for (Axis i = 0; i < x.rank(); ++i) order.push_back(i);
    return order;
  }());
  for (Axis a : axes) {
    if (x.rank() == 0) break;
    auto i = static_cast<size_t>(x.axis(a));
    map.axes[i].offset = x.dims()[i] - Dim(1);
    map.axes[i].terms[0].coefficient = -1;
  }
  return view(x, std::move(map));
}

Handle flatten(Handle x, Axis first, Axis last) {
  if (x.rank() == 0) return reshape(x, {Dim(1)});
  first = x.axis(first);
  last = x.axis(last);
  if (first > last) fail(Code::invalid_input, "flatten: the first axis {} comes after the last {}", first, last);
  Dims dims;
  Dim merged = 1;
  for (Axis i = 0; i < x.rank(); ++i) {
    if (i < first || i > last) {
      dims.push_back(x.dim(i));
    } else {
      merged *= x.dim(i);
      if (i == last) dims.push_back(merged);
    }
  }
  return reshape(x, std::move(dims));
}

Handle update(Handle base, AffineMap map, Handle value) {
  value = cast(value, base.dtype());
  return node(base.graph(), Op::update, {base.id(), value.id()}, {{"map", std::move(map)}});
}

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
  return node(x.graph(), Op::reduce, {x.id()}, {{"kind", kind}, {"axes", to_attribute(axes)}, {"keep", static_cast<bool>(keep)}});
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
  return node(x.graph(), Op::scan, {x.id()}, {{"kind", kind}, {"axis", x.axis(axis)}});
}

Handle join(std::vector<Handle> parts, Axis axis) {
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
  for (const Handle& p : kept) in.push_back(cast(p, t).id());
  return node(g, Op::join, std::move(in), {{"axis", axis}});
}

Handle gather(Handle table, std::vector<int64_t> axes, std::vector<Handle> indices, int64_t position, bool wrap) {
  std::vector<ValueId> in{table.id()};
  for (const Handle& i : indices) in.push_back(cast(i, DType::i64).id());
  note_checks(table.graph(), {in.begin() + 1, in.end()});
  return node(table.graph(), Op::gather, std::move(in), {{"axes", to_attribute(axes)}, {"position", position}, {"wrap", wrap}});
}

Handle take_along(Handle table, Axis axis, Handle at) {
  axis = table.axis(axis);
  return node(table.graph(), Op::take_along, {table.id(), cast(at, DType::i64).id()}, {{"axis", axis}});
}

Handle scatter(Handle base, std::vector<int64_t> axes, std::vector<Handle> indices, int64_t position, Handle updates, const char* kind) {
  std::vector<ValueId> in{base.id(), cast(updates, base.dtype()).id()};
  for (const Handle& i : indices) in.push_back(cast(i, DType::i64).id());
  return node(base.graph(), Op::scatter, std::move(in), {{"axes", to_attribute(axes)}, {"position", position}, {"kind", kind}});
}

Handle scatter_along(Handle base, Axis axis, Handle at, Handle updates, const char* kind) {
  axis = base.axis(axis);
  return node(base.graph(), Op::scatter_along, {base.id(), cast(at, DType::i64).id(), cast(updates, base.dtype()).id()}, {{"axis", axis}, {"kind", kind}});
}

std::pair<Handle, Handle> sort(Handle x, Axis axis, bool descending, bool stable) {
  return node2(x.graph(), Op::sort, {x.id()}, {{"axis", x.axis(axis)}, {"descending", descending}, {"stable", stable}});
}

std::pair<Handle, Handle> topk(Handle x, Dim k, Axis axis, bool largest, bool sorted) {
  axis = x.axis(axis);
  if (known_less(x.dim(axis), k, x.graph().symbols) == Truth::yes) fail(Code::invalid_input, "topk: k is larger than the axis");
  return node2(x.graph(), Op::topk, {x.id()}, {{"axis", axis}, {"k", k}, {"largest", largest}, {"sorted", sorted}});
}

Handle matmul(Handle a, Handle b) {
  if (a.rank() == 0 || b.rank() == 0) fail(Code::invalid_input, "matmul: a 0-d operand");
  bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a = unsqueeze(a, 0);
  if (column) b = unsqueeze(b, 1);
  if (a.dtype() != b.dtype()) fail(Code::invalid_input, "matmul: operands have dtypes {} and {}", name_of(a.dtype()), name_of(b.dtype()));
  Graph& g = a.graph();
  Dim inner_a = a.dims().back(), inner_b = b.dims()[b.dims().size() - 2];
  if (known_equal(inner_a, inner_b, g.symbols) == Truth::unknown) {
    g.checks.push_back({inner_a, inner_b, Check::equal, g.current_origin, "the inner sizes of matmul are equal"});
  }
  Handle y = node(g, Op::matmul, {a.id(), b.id()}, {});
  if (column) y = squeeze(y, -1);
  if (row) y = take(y, column ? -1 : -2, 0);
  return y;
}

Handle attention(Handle q, Handle k, Handle v, std::optional<Handle> mask, double scale, bool causal) {
  std::vector<ValueId> in{q.id(), k.id(), v.id()};
  if (mask) in.push_back(mask->id());
  return node(q.graph(), Op::attention, std::move(in), {{"scale", scale}, {"causal", causal}});
}

}  // namespace ingot::ir
