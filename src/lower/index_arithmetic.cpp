// Values computed from indices alone become index expressions: no table of positions is stored, a gather of element i at place i becomes a view, and
// comparisons that are always true or always false become constants.
#include "lower/affine.h"
#include "lower/passes.h"

namespace ingot::lower {

namespace {

using ir::AffineMap;
using ir::DType;
using ir::Truth;

ValueId build(Graph& g, const Affine& f, const Dims& dims) {
  std::optional<Handle> sum;
  for (size_t i = 0; i < f.steps.size(); ++i) {
    if (f.steps[i] == 0) continue;
    Handle term = ir::index(g, dims, static_cast<int64_t>(i));
    if (f.steps[i] != 1) term = term * ir::Operand(f.steps[i]);
    sum = sum ? *sum + term : term;
  }
  if (!sum) return ir::full(g, dims, f.offset, DType::i64).id();
  if (!(f.offset == Dim(0))) sum = *sum + ir::Operand(f.offset);
  return sum->id();
}

std::optional<ValueId> decide(Graph& g, AffineForms& forms, Op op, const std::vector<ValueId>& in) {
  auto a = forms.of(in[0]), b = forms.of(in[1]);
  if (!a || !b) return std::nullopt;
  Dims dims = ir::broadcast(g.type(in[0]).dims, g.type(in[1]).dims, g.symbols);
  Affine d = AffineForms::difference(*a, *b);
  ir::Range low = AffineForms::least(d, dims).range(g.symbols), high = AffineForms::greatest(d, dims).range(g.symbols);
  Truth less = high.max < 0 ? Truth::yes : low.min >= 0 ? Truth::no : Truth::unknown;
  Truth greater = low.min > 0 ? Truth::yes : high.max <= 0 ? Truth::no : Truth::unknown;
  bool same = d.constant() && d.offset == Dim(0), different = less == Truth::yes || greater == Truth::yes;
  Truth answer = Truth::unknown;
  auto negated = [](Truth t) { return t == Truth::unknown ? t : t == Truth::yes ? Truth::no : Truth::yes; };
  switch (op) {
    case Op::lt: answer = less; break;
    case Op::ge: answer = negated(less); break;
    case Op::gt: answer = greater; break;
    case Op::le: answer = negated(greater); break;
    case Op::eq: answer = same ? Truth::yes : different ? Truth::no : Truth::unknown; break;
    case Op::ne: answer = same ? Truth::no : different ? Truth::yes : Truth::unknown; break;
    default: break;
  }
  if (answer == Truth::unknown) return std::nullopt;
  return ir::full(g, dims, answer == Truth::yes, DType::b8).id();
}

// True if every index is inside. If run-time sizes decide it, a check is added.
bool inside(Graph& g, const Affine& f, const Dims& dims, const Dim& size, std::vector<ir::Check>& checks) {
  if (AffineForms::least(f, dims).range(g.symbols).min < 0) return false;
  Dim end = AffineForms::greatest(f, dims) + Dim(1);
  if (end == size) return true;
  switch (known_less(size, end, g.symbols)) {
    case Truth::no: return true;
    case Truth::yes: return false;
    case Truth::unknown: break;
  }
  checks.push_back({end, size, ir::Check::less_equal, g.current_origin, "the indices are inside the table"});
  return true;
}

std::optional<ValueId> gather(Graph& g, AffineForms& forms, const Node& node, const std::vector<ValueId>& in, const Dims& out) {
  std::vector<int64_t> axes = node.attributes.integers("axes");
  auto position = static_cast<size_t>(node.attributes.integer("position"));
  const Dims& table = g.type(in[0]).dims;
  size_t index_rank = out.size() + axes.size() - table.size();
  Dims index_dims(out.begin() + static_cast<int64_t>(position), out.begin() + static_cast<int64_t>(position + index_rank));
  AffineMap map;
  map.dims = out;
  map.axes.resize(table.size());
  std::vector<bool> gathered(table.size(), false);
  std::vector<ir::Check> checks;
  for (size_t i = 0; i < axes.size(); ++i) {
    auto f = forms.of(in[i + 1]);
    if (!f) return std::nullopt;
    Affine wide = AffineForms::widened(*f, index_rank);
    auto axis = static_cast<size_t>(axes[i]);
    if (!inside(g, wide, index_dims, table[axis], checks)) return std::nullopt;
    gathered[axis] = true;
    map.axes[axis].offset = wide.offset;
    for (size_t k = 0; k < index_rank; ++k) {
      if (wide.steps[k] != 0) map.axes[axis].terms.push_back({static_cast<uint32_t>(position + k), wide.steps[k]});
    }
  }
  uint32_t next = 0;
  for (size_t a = 0; a < table.size(); ++a) {
    if (gathered[a]) continue;
    if (next == position) next += static_cast<uint32_t>(index_rank);
    map.axes[a].terms = {{next++, 1}};
  }
  g.checks.insert(g.checks.end(), checks.begin(), checks.end());
  return ir::view(Handle(&g, in[0]), std::move(map)).id();
}

std::optional<ValueId> take_along(Graph& g, AffineForms& forms, const Node& node, const std::vector<ValueId>& in) {
  auto f = forms.of(in[1]);
  if (!f) return std::nullopt;
  const Dims &table = g.type(in[0]).dims, &dims = g.type(in[1]).dims;
  auto axis = static_cast<size_t>(node.attributes.integer("axis"));
  std::vector<ir::Check> checks;
  if (!inside(g, *f, dims, table[axis], checks)) return std::nullopt;
  AffineMap map;
  map.dims = dims;
  map.axes.resize(table.size());
  for (size_t a = 0; a < table.size(); ++a) {
    if (a != axis) {
      map.axes[a].terms = {{static_cast<uint32_t>(a), 1}};
      continue;
    }
    map.axes[a].offset = f->offset;
    for (size_t k = 0; k < f->steps.size(); ++k) {
      if (f->steps[k] != 0) map.axes[a].terms.push_back({static_cast<uint32_t>(k), f->steps[k]});
    }
  }
  g.checks.insert(g.checks.end(), checks.begin(), checks.end());
  return ir::view(Handle(&g, in[0]), std::move(map)).id();
}

bool compares(Op op) { return op == Op::lt || op == Op::le || op == Op::gt || op == Op::ge || op == Op::eq || op == Op::ne; }

}  // namespace

void index_arithmetic(Graph& g) {
  std::optional<AffineForms> forms;
  const Graph* at = nullptr;
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (at != &to) forms.emplace(*(at = &to));
    if (compares(node.op)) return decide(to, *forms, node.op, in);
    const ir::Type& type = g.type(node.out[0]);
    if (node.op == Op::gather) return gather(to, *forms, node, in, type.dims);
    if (node.op == Op::take_along) return take_along(to, *forms, node, in);
    if (type.dtype != DType::i64) return std::nullopt;
    bool arithmetic = node.op == Op::add || node.op == Op::sub || node.op == Op::mul || node.op == Op::neg;
    bool moves = node.op == Op::concat || node.op == Op::cast || node.op == Op::scan || (node.op == Op::view && !is(to, in[0], Op::literal) && !is(to, in[0], Op::size));
    if (!arithmetic && !moves) return std::nullopt;
    // The node is not in the new graph yet: a copy of it is asked for its form, and removed if it stays unused.
    ir::NodeId id = to.add_node(node.op, in, node.attributes, {type});
    ValueId v = to.nodes[id].out[0];
    to.values[v].name = g.values[node.out[0]].name;
    auto f = forms->of(v);
    int terms = 0;
    bool plain = true;
    if (f) {
      for (int64_t s : f->steps) {
        if (s != 0) ++terms;
        if (s != 0 && s != 1) plain = false;
      }
    }
    const bool is_simple = f && (terms == 0 || (terms == 1 && plain && f->offset == Dim(0)));  // a constant, or one index
    if (!f || (arithmetic && !is_simple)) return v;
    return build(to, *f, type.dims);
  });
}

}  // namespace ingot::lower
