// A new version of a tensor with a rectangle replaced, x[2:4] = v, becomes a select by index between the new value and the old one. It fuses with its neighbours,
// and the tensor is not copied.
#include <set>
#include <string>

#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

std::optional<ValueId> as_select(Graph& g, ValueId base, ValueId value, const ir::AffineMap& map) {
  const Dims dims = g.type(base).dims, small = g.type(value).dims;
  ir::AffineMap back;  // where the new value is read
  back.dims = dims;
  back.axes.resize(small.size());
  std::optional<Handle> inside;
  auto also = [&](const Handle& condition) { inside = inside ? *inside & condition : condition; };
  for (size_t j = 0; j < dims.size(); ++j) {
    const ir::AffineMap::Axis& axis = map.axes[j];
    Dims line(dims.size() - j, Dim(1));
    line[0] = dims[j];
    if (axis.terms.empty()) {
      if (!(dims[j] == Dim(1))) also(ir::equal(ir::index(g, line, 0), ir::Operand(axis.offset)));
      continue;
    }
    if (axis.terms.size() != 1 || axis.terms[0].coefficient != 1) return std::nullopt;
    uint32_t k = axis.terms[0].axis;
    if (!back.axes[k].terms.empty()) return std::nullopt;
    back.axes[k] = {-axis.offset, {{static_cast<uint32_t>(j), 1}}};
    Dim end = axis.offset + small[k];
    Handle at = ir::index(g, line, 0);
    if (!(axis.offset == Dim(0))) also(at >= ir::Operand(axis.offset));
    if (!(end == dims[j])) also(at < ir::Operand(end));
  }
  for (size_t k = 0; k < small.size(); ++k) {
    if (back.axes[k].terms.empty() && !(small[k] == Dim(1))) return std::nullopt;
  }
  if (!inside) return ir::view(Handle(&g, value), std::move(back)).id();
  ir::DType t = g.type(value).dtype;
  if (t == ir::DType::b8) {
    back.fill.emplace(false);
  } else if (is_float(t)) {
    back.fill.emplace(0.0);
  } else {
    back.fill.emplace(0);
  }
  return ir::select(*inside, ir::view(Handle(&g, value), std::move(back)), Handle(&g, base)).id();
}

// True if the update ends a chain that starts at the caller's memory or at a buffer: it is written there in place, and the rest of that memory is not touched.
bool writes_state(const Graph& g, ValueId base, const std::set<std::string>& inputs, const std::set<std::string>& weights) {
  for (;;) {
    const Node& n = maker(g, base);
    if (n.op == Op::input) return inputs.contains(g.values[base].name);
    if (n.op == Op::weight) {
      const ir::Weight* w = g.weight_of(base);
      return w != nullptr && weights.contains(w->name);
    }
    if (n.op != Op::update && n.op != Op::scatter && n.op != Op::scatter_along) return false;
    base = n.in[0];
  }
}

}  // namespace

void update_to_select(Graph& g) {
  std::set<std::string> inputs, weights;
  for (const ir::Output& o : g.outputs) {
    if (o.to == ir::Output::To::input) inputs.insert(o.name);
    if (o.to == ir::Output::To::weight) weights.insert(o.name);
  }
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    // The rectangle is read back or written again: x[1:] += y does both.
    if (node.op == Op::view && is(to, in[0], Op::update) && maker(to, in[0]).attributes.map("map") == node.attributes.map("map")) return maker(to, in[0]).in[1];
    if (node.op != Op::update) return std::nullopt;
    if (const Node& below = maker(to, in[0]); below.op == Op::update && below.attributes.map("map") == node.attributes.map("map")) {
      if (in[1] == below.in[1]) return in[0];
      return ir::update(Handle(&to, below.in[0]), node.attributes.map("map"), Handle(&to, in[1])).id();
    }
    if (writes_state(to, in[0], inputs, weights)) return std::nullopt;
    return as_select(to, in[0], in[1], node.attributes.map("map"));
  });
}

}  // namespace ingot::lower
