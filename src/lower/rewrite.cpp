#include "lower/rewrite.h"

#include <algorithm>

#include "ir/symbols.h"

namespace ingot::lower {

void rewrite_named(Graph& g, const NamedRewrite& f) { ir::replace_nodes(g, f); }

namespace {

NamedRewrite unnamed(const Rewrite& f) {
  return [&f](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) { return f(to, node, in); };
}

}  // namespace

void rewrite(Graph& g, const Rewrite& f) { ir::replace_nodes(g, unnamed(f)); }

void rewrite_to_fixpoint(Graph& g, const Rewrite& f, int rounds) {
  for (int i = 0; i < rounds && ir::replace_nodes(g, unnamed(f)); ++i) {
  }
}

std::vector<int> use_counts(const Graph& g) {
  std::vector<int> counts(g.values.size(), 0);
  for (const Node& n : g.nodes) {
    for (ValueId v : n.in) ++counts[v];
  }
  for (const ir::Output& o : g.outputs) ++counts[o.value];
  return counts;
}

bool only_broadcasts(const Graph& g, const Node& view) {
  if (view.op != Op::view) return false;
  const ir::AffineMap& map = view.attributes.map("map");
  if (map.fill) return false;
  const Dims& from = g.type(view.in[0]).dims;
  // Axis i of the operand must be where aligning both shapes at the right puts it.
  if (from.size() > map.dims.size()) return false;
  size_t lead = map.dims.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    const ir::AffineMap::Axis& axis = map.axes[i];
    if (!(axis.offset == Dim(0))) return false;
    bool same = axis.terms.size() == 1 && axis.terms[0].axis == lead + i && axis.terms[0].coefficient == 1 && from[i] == map.dims[lead + i];
    bool repeated = from[i] == Dim(1) && (axis.terms.empty() || (axis.terms.size() == 1 && map.dims[axis.terms[0].axis] == Dim(1)));
    if (!same && !repeated) return false;
  }
  return true;
}

std::optional<ir::Scalar> number_of(const Graph& g, ValueId v) {
  for (int depth = 0; depth < 16; ++depth) {
    const Node& n = maker(g, v);
    if (n.op == Op::literal) return n.attributes.scalar("value");
    bool same_elements = n.op == Op::reshape || (n.op == Op::view && !n.attributes.map("map").fill);
    if (!same_elements) return std::nullopt;
    v = n.in[0];
  }
  return std::nullopt;
}

std::optional<ValueId> with_number(const Graph& g, ValueId v, Op op, double* number) {
  const Node& n = maker(g, v);
  if (n.op != op || n.in.size() != 2) return std::nullopt;
  bool either = op == Op::add || op == Op::mul;
  for (size_t i : {size_t{1}, size_t{0}}) {
    if (i == 0 && !either) break;
    auto s = number_of(g, n.in[i]);
    if (!s || std::holds_alternative<Dim>(s->value)) continue;
    if (!(g.type(n.in[1 - i]).dims == g.type(v).dims)) continue;
    *number = s->to_double();
    return n.in[1 - i];
  }
  return std::nullopt;
}

bool is_guardable(const Graph& g, ValueId operand, const ir::AffineMap& map) {
  std::vector<bool> seen(map.dims.size(), false);
  for (size_t a = 0; a < map.axes.size(); ++a) {
    const ir::AffineMap::Axis& axis = map.axes[a];
    if (axis.terms.empty() && axis.offset == Dim(0) && known_less(0, g.type(operand).dims[a], g.symbols) == ir::Truth::yes) continue;
    if (axis.terms.size() != 1 || axis.terms[0].coefficient != 1 || seen[axis.terms[0].axis]) return false;
    seen[axis.terms[0].axis] = true;
  }
  return true;
}

bool stays_inside(const Graph& g, const Dims& operand, const ir::AffineMap& map) {
  for (size_t a = 0; a < map.axes.size(); ++a) {
    Dim lowest = map.axes[a].offset, highest = lowest;
    for (const ir::AffineMap::Term& t : map.axes[a].terms) (t.coefficient < 0 ? lowest : highest) += (map.dims[t.axis] - Dim(1)) * Dim(t.coefficient);
    if (known_less(lowest, 0, g.symbols) != ir::Truth::no || known_less(highest, operand[a], g.symbols) != ir::Truth::yes) return false;
  }
  return true;
}

WeightValues::WeightValues(const Graph& whole, Through through) : through_(through) {
  for (const ir::Output& o : whole.outputs) {
    if (o.to == ir::Output::To::weight) written_.insert(o.name);
  }
}

bool WeightValues::is_one(const Graph& g, const Node& n) const {
  if (n.op == Op::weight) return !written_.contains(g.values[n.out[0]].name);
  const bool moves = n.op == Op::literal || is_view(n.op) || n.op == Op::concat || n.op == Op::cast;
  if (!moves && (through_ == Through::moves || !is_map(n.op))) return false;
  return !reads_symbol(g, n) && std::all_of(n.in.begin(), n.in.end(), [&](ValueId v) { return known_[v]; });
}

bool WeightValues::contain(const Graph& g, ValueId v) {
  known_.resize(g.values.size(), false);
  for (; nodes_ < g.nodes.size(); ++nodes_) {
    const Node& n = g.nodes[nodes_];
    const bool one = is_one(g, n);
    for (ValueId out : n.out) known_[out] = one;
  }
  return known_[v];
}

std::optional<ValueId> product_below(const Graph& g, ValueId v, const std::vector<int>* uses, int depth) {
  const Node& n = maker(g, v);
  if (n.op == Op::matmul || n.op == Op::reduce) return v;
  const bool moves = n.op == Op::reshape || (n.op == Op::view && !n.attributes.map("map").fill);
  if (depth == 0 || (!moves && !is_map(n.op))) return std::nullopt;
  for (ValueId in : n.in) {
    if ((!moves && !(g.type(in).dims == g.type(v).dims)) || (uses != nullptr && (*uses)[in] != 1)) continue;
    if (auto product = product_below(g, in, uses, depth - 1)) return product;
  }
  return std::nullopt;
}

bool has_windows(const ir::AffineMap::Axis& axis, const Dims& dims) {
  for (const ir::AffineMap::Term& outer : axis.terms) {
    int64_t reach = 0;  // of what walks in smaller steps
    for (const ir::AffineMap::Term& inner : axis.terms) {
      if (&inner != &outer && std::abs(inner.coefficient) <= std::abs(outer.coefficient))
        reach += std::abs(inner.coefficient) * (dims[inner.axis].constant().value_or(INT32_MAX) - 1);
    }
    if (reach >= std::abs(outer.coefficient)) return true;
  }
  return false;
}

}  // namespace ingot::lower
