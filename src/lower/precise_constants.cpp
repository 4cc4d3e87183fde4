// Elementary functions of constants, indices and sizes alone are computed in float64 and rounded to their type: one unit in the last place of a frequency is a
// thousand of the angle at position 1,000. Such values are computed once (compile/split.cpp) unless they depend on a size.
#include "ir/constants.h"

#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

// +, -, * and / of float32 round once as they are; of half types they compute in float32, and between them nothing would be rounded.
bool needs_more(Op op, ir::DType t) {
  const bool arithmetic = op == Op::add || op == Op::sub || op == Op::mul || op == Op::div;
  return t == ir::DType::f32 ? ir::is_elementary(op) : is_float(t) && t != ir::DType::f64 && (arithmetic || ir::is_elementary(op));
}

// In float64. A constant operand is first rounded to float32, in which half types compute too.
ValueId widened(Graph& g, ValueId v) {
  const Node& made = maker(g, v);
  if (made.op != Op::literal || !is_float(g.type(v).dtype)) return ir::cast(Handle(&g, v), ir::DType::f64).id();
  const double number = made.attributes.scalar("value").to_double();
  return ir::literal(g, g.type(v).dtype == ir::DType::f64 ? number : double{static_cast<float>(number)}, ir::DType::f64).id();
}

// Values without inputs and weights that an elementary function reads, directly or through others.
std::vector<bool> around_functions(const Graph& g, const ir::Constants& constants) {
  std::vector<bool> found(g.values.size());
  for (size_t n = g.nodes.size(); n-- > 0;) {
    const Node& node = g.nodes[n];
    for (ValueId v : node.out) {
      if (!constants.free[v]) continue;
      const bool function = ir::is_elementary(node.op);
      if (function || found[v]) {
        for (ValueId in : node.in) found[in] = true;
      }
      found[v] = found[v] || function || constants.table[v];
    }
  }
  return found;
}

}  // namespace

void precise_constants(Graph& g) {
  const ir::Constants known = ir::find_constants(g);
  const std::vector<bool> found = around_functions(g, known);
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.out.size() != 1 || !known.free[node.out[0]] || !found[node.out[0]]) return std::nullopt;
    const ir::Type type = g.type(node.out[0]);
    if (!needs_more(node.op, type.dtype)) return std::nullopt;
    std::vector<ValueId> wide;
    for (ValueId v : in) wide.push_back(widened(to, v));
    const ValueId exact = to.add(node.op, std::move(wide), node.attributes, {ir::DType::f64, type.dims});
    return ir::cast(Handle(&to, exact), type.dtype).id();
  });
}

}  // namespace ingot::lower
