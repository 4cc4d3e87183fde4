#include "compile/below_views.h"

#include <algorithm>

#include "compile/context.h"
#include "compile/tuning.h"
#include "ir/reshape_groups.h"

namespace ingot::compile {

using namespace ir;

ValueId below_views(const Graph& g, ValueId v, std::vector<const AffineMap*>* maps) {
  while (g.producer(v).op == Op::view && !g.producer(v).attributes.map("map").fill) {
    if (maps != nullptr) maps->push_back(&g.producer(v).attributes.map("map"));
    v = g.producer(v).in[0];
  }
  return v;
}

std::optional<size_t> last_axis(const Dims& dims) {
  for (size_t d = dims.size(); d-- > 0;) {
    if (!(dims[d] == Dim(1))) return d;
  }
  return std::nullopt;
}

namespace {

// The operand whose order v has; none_id where v is taken to be stored row-major.
ValueId operand_in_order(const Graph& g, ValueId v, Below below) {
  const Node& node = g.producer(v);
  if (is_plain_view(g, v)) return node.in[0];
  if (below == Below::views || !is_map(node.op)) return none_id;
  for (ValueId in : node.in) {
    if (g.type(in).dims == g.type(v).dims && g.producer(in).op != Op::literal) return in;
  }
  return none_id;
}

// The axis of v along which the elements of `axis` of its operand are neighbours.
std::optional<size_t> axis_above(const Graph& g, ValueId v, size_t axis) {
  const Node& node = g.producer(v);
  const Dims& dims = g.type(v).dims;
  if (node.op == Op::view) {
    for (const AffineMap::Term& t : node.attributes.map("map").axes[axis].terms) {
      if (t.coefficient == 1 && !(dims[t.axis] == Dim(1))) return t.axis;
    }
    return std::nullopt;
  }
  if (node.op != Op::reshape) return axis;
  for (const ReshapeGroup& group : reshape_groups(g.type(node.in[0]).dims, dims)) {
    if (std::count(group.from.begin(), group.from.end(), axis) != 0 && !group.to.empty()) return group.to.back();
  }
  return std::nullopt;
}

}  // namespace

std::optional<size_t> innermost(const Graph& g, ValueId v, Below below) {
  std::vector<ValueId> above;  // from v down
  for (ValueId in; (in = operand_in_order(g, v, below)) != none_id; v = in) {
    if (above.size() == bounds::max_views) return std::nullopt;
    above.push_back(v);
  }
  std::optional<size_t> axis = last_axis(g.type(v).dims);
  for (size_t k = above.size(); k-- > 0 && axis;) axis = axis_above(g, above[k], *axis);
  return axis;
}

}  // namespace ingot::compile
