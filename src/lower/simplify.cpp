// Peephole simplifications of two neighbouring nodes.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ir/reference.h"
#include "ir/reshape_groups.h"
#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

using ir::AffineMap;
using ir::DType;
using ir::Scalar;

// The axes from which both shapes follow by merging neighbours, if neither follows from the other; nullopt if there are none.
std::optional<Dims> refined(const Dims& from, const Dims& to) {
  Dims out;
  size_t i = 0, j = 0;
  Dim a = 1, b = 1;  // what is left of from[i - 1], of to[j - 1]
  auto divides = [](const Dim& x, const Dim& by) { return !(by == Dim(0)) && floordiv(x, by) * by == x; };
  while (i < from.size() || j < to.size() || !(a == Dim(1)) || !(b == Dim(1))) {
    if (a == Dim(1) && i < from.size()) {
      a = from[i++];
    } else if (b == Dim(1) && j < to.size()) {
      b = to[j++];
    } else if (a == Dim(1) || b == Dim(1) || a == Dim(0) || b == Dim(0)) {
      return std::nullopt;
    } else if (divides(b, a)) {
      out.push_back(a);
      b = floordiv(b, a);
      a = 1;
    } else if (divides(a, b)) {
      out.push_back(b);
      a = floordiv(a, b);
      b = 1;
    } else {
      return std::nullopt;
    }
  }
  return out;
}

bool is_permutation(const AffineMap& map, const Dims& from) {
  if (map.fill || map.dims.size() != from.size()) return false;
  std::vector<bool> seen(from.size(), false);
  for (size_t i = 0; i < from.size(); ++i) {
    const AffineMap::Axis& axis = map.axes[i];
    if (!(axis.offset == Dim(0)) || axis.terms.size() != 1 || axis.terms[0].coefficient != 1 || seen[axis.terms[0].axis]) return false;
    if (!(map.dims[axis.terms[0].axis] == from[i])) return false;
    seen[axis.terms[0].axis] = true;
  }
  return true;
}

// The part that a view reads of a concatenation of single elements along an axis, as torch.stack makes them; the map then counts in that part. Longer parts stay: passes that merge
// products, and concatenations, read them through views.
std::optional<ValueId> element_read(const Graph& g, const Node& concat, AffineMap& map) {
  const auto axis = static_cast<size_t>(concat.attributes.integer("axis"));
  const std::optional<int64_t> place = map.axes[axis].offset.constant();
  if (!place || !map.axes[axis].terms.empty() || *place < 0 || *place >= static_cast<int64_t>(concat.in.size())) return std::nullopt;
  if (!std::all_of(concat.in.begin(), concat.in.end(), [&](ValueId v) { return g.type(v).dims[axis] == Dim(1); })) return std::nullopt;
  map.axes[axis].offset = 0;
  return concat.in[static_cast<size_t>(*place)];
}

ValueId simplify_view(Graph& g, ValueId x, AffineMap map) {
  if (!map.fill && is(g, x, Op::concat)) {
    if (const auto part = element_read(g, maker(g, x), map)) return simplify_view(g, *part, std::move(map));
  }
  const Node& made = maker(g, x);
  if (map.fill && stays_inside(g, g.type(x).dims, map)) map.fill.reset();
  if (made.op == Op::view) {
    AffineMap inner = made.attributes.map("map");
    // The fill of the outer map depends on the bounds of the value in between; only a permutation keeps them.
    if (!map.fill || is_permutation(inner, g.type(made.in[0]).dims)) {
      std::optional<Scalar> fill = map.fill ? map.fill : inner.fill;
      if (!(map.fill && inner.fill)) {
        inner.fill.reset();
        AffineMap both = compose(map, inner);
        both.fill = fill;
        if (!fill || is_guardable(g, made.in[0], both)) return ir::view(Handle(&g, made.in[0]), std::move(both)).id();
      }
    }
  }
  if (made.op == Op::reshape && is_permutation(map, g.type(x).dims)) {
    // A permutation of merged axes: permute what they were merged from, then merge.
    const Dims& from = g.type(made.in[0]).dims;
    if (auto merged = ir::merged_axes(from, g.type(x).dims)) {
      std::vector<size_t> order(map.dims.size());  // result axis -> operand axis
      for (size_t i = 0; i < map.axes.size(); ++i) order[map.axes[i].terms[0].axis] = i;
      ir::Axes axes;
      for (size_t i : order) axes.insert(axes.end(), (*merged)[i].begin(), (*merged)[i].end());
      for (size_t i = 0; i < from.size(); ++i) {
        if (from[i] == Dim(1)) axes.push_back(static_cast<int64_t>(i));
      }
      return ir::reshape(ir::permute(Handle(&g, made.in[0]), axes), map.dims).id();
    }
  }
  if (made.op == Op::reshape && !map.fill) {
    if (auto before = ir::before_merge(map, g.type(made.in[0]).dims, g.type(x).dims)) return ir::view(Handle(&g, made.in[0]), std::move(*before)).id();
  }
  return ir::view(Handle(&g, x), map).id();
}

std::optional<ValueId> simplify_reshape(Graph& g, ValueId x, const Dims& dims) {
  if (g.type(x).dims == dims) return x;
  const Node& made = maker(g, x);
  if (made.op == Op::reshape) return ir::reshape(Handle(&g, made.in[0]), dims).id();
  if (made.op == Op::view && is(g, made.in[0], Op::literal)) return ir::expand(Handle(&g, made.in[0]), dims).id();
  const Dims from = g.type(x).dims;
  if (auto map = ir::split_map(from, dims)) return simplify_view(g, x, *map);
  // A reshape that splits and merges: first it splits, which is a view, then it merges.
  if (!ir::merged_axes(from, dims)) {
    auto fine = refined(from, dims);
    auto split = fine ? ir::split_map(from, *fine) : std::nullopt;
    if (split && !(*fine == from)) return ir::reshape(Handle(&g, simplify_view(g, x, *split)), dims).id();
  }
  return std::nullopt;
}

// True if from -> to is exact, so that a later cast sees the same value.
bool exact(DType from, DType to) {
  if (from == to || from == DType::b8) return true;
  if (is_integer(from) && is_integer(to)) return size_of(from) < size_of(to) && (from == DType::u8 || to != DType::u8);
  if (is_integer(from) && is_float(to)) {
    if (size_of(from) == 1) return to != DType::bf16;
    return size_of(from) <= 4 && size_of(to) >= 2 * size_of(from);
  }
  if (is_float(from) && is_float(to)) return size_of(from) < size_of(to);
  return false;
}

std::optional<ValueId> simplify_cast(Graph& g, ValueId x, DType t) {
  if (g.type(x).dtype == t) return x;
  const Node& made = maker(g, x);
  if (made.op == Op::cast && exact(g.type(made.in[0]).dtype, g.type(x).dtype)) return ir::cast(Handle(&g, made.in[0]), t).id();
  if (made.op == Op::literal) {
    ValueId v = ir::cast(Handle(&g, x), t).id();
    if (is(g, v, Op::literal)) return v;
  }
  if (made.op == Op::view && is(g, made.in[0], Op::literal) && !made.attributes.map("map").fill) {
    Handle y = ir::cast(Handle(&g, made.in[0]), t);
    if (is(g, y.id(), Op::literal)) return ir::expand(y, g.type(x).dims).id();
  }
  return std::nullopt;
}

// The value of a map of literals, by the reference interpreter.
std::optional<ValueId> fold(Graph& g, Op op, const std::vector<ValueId>& in, const ir::Attributes& attributes) {
  Graph small;
  std::vector<ValueId> operands;
  for (ValueId v : in) {
    const Node& n = maker(g, v);
    if (n.op != Op::literal) return std::nullopt;
    operands.push_back(small.add(Op::literal, {}, n.attributes, g.type(v)));
  }
  ir::Type type = infer(small, op, operands, attributes)[0];
  small.outputs.push_back({small.add(op, operands, attributes, type), "y", {}});
  try {
    ir::Array y = interpret(small, {})[0];
    auto as = [&]<class T>(T) {
      T v;
      std::memcpy(&v, y.bytes.data(), sizeof(T));
      return v;
    };
    switch (type.dtype) {
      case DType::b8: return ir::literal(g, as(bool{}), type.dtype).id();
      case DType::i32: return ir::literal(g, int64_t{as(int32_t{})}, type.dtype).id();
      case DType::i64: return ir::literal(g, as(int64_t{}), type.dtype).id();
      case DType::f32: return ir::literal(g, double{as(float{})}, type.dtype).id();
      case DType::f64: return ir::literal(g, as(double{}), type.dtype).id();
      default: return std::nullopt;
    }
  } catch (const Error&) {
    return std::nullopt;  // an integer division by zero stays an error of the run
  }
}

// Only leading axes of size 1 are dropped, which broadcasting adds again.
bool drops_leading_units(const Graph& g, ValueId v) {
  const Node& n = maker(g, v);
  if (n.op != Op::reshape && n.op != Op::view) return false;
  if (n.op == Op::view && n.attributes.map("map").fill) return false;
  const Dims &from = g.type(n.in[0]).dims, &to = g.type(v).dims;
  if (from.size() <= to.size() || !std::equal(to.begin(), to.end(), from.end() - static_cast<int64_t>(to.size()))) return false;
  if (!std::all_of(from.begin(), from.end() - static_cast<int64_t>(to.size()), [](const Dim& d) { return d == Dim(1); })) return false;
  if (n.op == Op::reshape) return true;
  const AffineMap& map = n.attributes.map("map");
  for (size_t a = 0; a < from.size(); ++a) {
    const AffineMap::Axis& axis = map.axes[a];
    if (!(axis.offset == Dim(0))) return false;
    if (from[a] == Dim(1)) continue;
    if (axis.terms.size() != 1 || axis.terms[0].coefficient != 1 || axis.terms[0].axis + from.size() != a + to.size()) return false;
  }
  return true;
}

std::optional<ValueId> simplify_map(Graph& g, const Node& node, std::vector<ValueId> in, const Dims& dims) {
  // Operands that are only repeated are read as they are.
  bool changed = false;
  for (size_t i = 0; i < in.size(); ++i) {
    while (only_broadcasts(g, maker(g, in[i])) || drops_leading_units(g, in[i])) {
      std::vector<ValueId> trial = in;
      trial[i] = maker(g, in[i]).in[0];
      if (!(infer(g, node.op, trial, node.attributes)[0].dims == dims)) break;
      in = std::move(trial);
      changed = true;
    }
  }
  auto full_size = [&](ValueId v) { return g.type(v).dims == dims; };
  auto number = [&](size_t i) -> std::optional<Scalar> {
    auto s = number_of(g, in[i]);
    if (s && std::holds_alternative<Dim>(s->value)) return std::nullopt;
    return s;
  };
  bool floats = is_float(g.type(in[0]).dtype), bools = g.type(in[0]).dtype == DType::b8;
  if (in.size() == 2) {
    for (size_t i : {size_t{1}, size_t{0}}) {
      auto s = number(i);
      if (!s || !full_size(in[1 - i])) continue;
      ValueId other = in[1 - i];
      double v = s->to_double();
      bool right = i == 1;
      // x + 0.0 is not x for x = -0.0, so floats keep it.
      const bool adds_zero = node.op == Op::add && v == 0 && !floats, subtracts_zero = node.op == Op::sub && v == 0 && right && !std::signbit(v);
      if (adds_zero || subtracts_zero) return other;
      if ((node.op == Op::mul && v == 1) || (node.op == Op::div && v == 1 && right)) return other;
      if (node.op == Op::bit_and && bools) return v != 0 ? other : in[i] == other ? other : ir::full(g, dims, false, DType::b8).id();
      if (node.op == Op::bit_or && bools) return v == 0 ? other : ir::full(g, dims, true, DType::b8).id();
    }
    if ((node.op == Op::bit_and || node.op == Op::bit_or || node.op == Op::min || node.op == Op::max) && in[0] == in[1]) return in[0];
  }
  if (node.op == Op::select) {
    if (in[1] == in[2] && full_size(in[1])) return in[1];
    if (auto c = number(0)) {
      ValueId chosen = c->to_double() != 0 ? in[1] : in[2];
      return ir::expand(Handle(&g, chosen), dims).id();
    }
  }
  if ((node.op == Op::neg || node.op == Op::logical_not) && is(g, in[0], node.op)) return maker(g, in[0]).in[0];
  if (node.op == Op::cast) {
    if (auto v = simplify_cast(g, in[0], node.attributes.dtype("dtype"))) return v;
  }
  if (node.op == Op::bitcast && is(g, in[0], Op::bitcast)) {
    if (const ValueId given = maker(g, in[0]).in[0]; g.type(given).dtype == node.attributes.dtype("dtype")) return given;
  }
  if (dims.empty()) {
    if (auto v = fold(g, node.op, in, node.attributes)) return v;
  }
  if (!changed) return std::nullopt;
  ir::Type type = infer(g, node.op, in, node.attributes)[0];
  return g.add(node.op, in, node.attributes, std::move(type));
}

}  // namespace

void simplify(Graph& g) {
  rewrite_to_fixpoint(g, [&g](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    size_t before = to.nodes.size();
    std::optional<ValueId> v;
    if (node.op == Op::view) {
      v = simplify_view(to, in[0], node.attributes.map("map"));
    } else if (node.op == Op::reshape) {
      v = simplify_reshape(to, in[0], node.attributes.dims("dims"));
    } else if (is_map(node.op)) {
      v = simplify_map(to, node, in, g.type(node.out[0]).dims);
    }
    if (!v) return v;
    // Building the same node again changes nothing: the node is copied, so that its name and id stay.
    const Node& made = maker(to, *v);
    if (to.nodes.size() == before + 1 && made.op == node.op && made.in == in && made.attributes == node.attributes) {
      to.nodes.pop_back();
      to.values.pop_back();
      return std::nullopt;
    }
    if (to.values[*v].name.empty()) to.values[*v].name = g.values[node.out[0]].name;
    return v;
  });
}

}  // namespace ingot::lower
