// Pointwise work after a concatenation of results of products and sums is done on each part: f(concat(a, b), c) is concat(f(a, c), f(b, c)). A product's kernel
// then does it, a batch normalisation goes into the weights, and compile places the parts inside the concatenation. A view of one part alone reads that part.
#include <algorithm>
#include <set>

#include "ir/symbols.h"
#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

// True if most work of a step that makes this value is a product or a sum, and nobody else reads what is between.
bool ends_product(const Graph& g, const std::vector<int>& uses, ValueId v) { return uses[v] == 1 && product_below(g, v, &uses).has_value(); }

// True for a slice of a larger value: it is copied into the concatenation anyway. What others read whole is computed there.
bool is_slice(const Graph& g, ValueId v) {
  const Dim all = product(g.type(v).dims);
  while (ir::is_view(maker(g, v).op)) v = maker(g, v).in[0];
  return !(product(g.type(v).dims) == all);
}

// True if all parts are ends of products, or all but one slice.
bool gains(const Graph& g, const std::vector<int>& uses, const Node& concat) {
  size_t ends = 0, slices = 0;
  for (ValueId v : concat.in) {
    const bool end = ends_product(g, uses, v);
    ends += end;
    slices += !end && is_slice(g, v);
  }
  return ends > 0 && slices < 2 && ends + slices == concat.in.size();
}

// What `v` holds for the part of `dims` that begins at `start` of `axis`.
ValueId part_of(Graph& g, ValueId v, const Dims& dims, size_t axis, const Dim& start, const Dim& length) {
  const Dims own = g.type(v).dims;
  const size_t lead = dims.size() - own.size();
  if (axis < lead || own[axis - lead] == Dim(1)) return v;
  return ir::slice(Handle(&g, v), static_cast<ir::Axis>(axis - lead), start, start + length, 1).id();
}

std::optional<ValueId> map_on_parts(Graph& g, const Node& map, const std::vector<ValueId>& in, const Node& concat) {
  const Dims dims = g.type(concat.out[0]).dims;
  const auto axis = static_cast<size_t>(concat.attributes.integer("axis"));
  if (dims[axis] == Dim(1)) return std::nullopt;
  std::vector<Handle> parts;
  Dim start = 0;
  for (ValueId part : concat.in) {
    const Dim length = g.type(part).dims[axis];
    std::vector<ValueId> operands;
    for (ValueId v : in) operands.push_back(v == concat.out[0] ? part : part_of(g, v, dims, axis, start, length));
    ir::Type type = infer(g, map.op, operands, map.attributes)[0];
    parts.emplace_back(&g, g.add(map.op, std::move(operands), map.attributes, std::move(type)));
    start += length;
  }
  return ir::concat(parts, static_cast<ir::Axis>(axis)).id();
}

// The view of the one part that a view of a concatenation reads.
std::optional<ValueId> view_of_part(Graph& g, const Node& view, const Node& concat) {
  ir::AffineMap map = view.attributes.map("map");
  const auto axis = static_cast<size_t>(concat.attributes.integer("axis"));
  Dim lowest = map.axes[axis].offset, highest = lowest;
  for (const ir::AffineMap::Term& t : map.axes[axis].terms) (t.coefficient < 0 ? lowest : highest) += (map.dims[t.axis] - Dim(1)) * Dim(t.coefficient);
  Dim start = 0;
  for (ValueId part : concat.in) {
    const Dim end = start + g.type(part).dims[axis];
    if (known_less(lowest, start, g.symbols) == ir::Truth::no && known_less(highest, end, g.symbols) == ir::Truth::yes) {
      map.axes[axis].offset += -start;
      return ir::view(Handle(&g, part), std::move(map)).id();
    }
    start = end;
  }
  return std::nullopt;
}

}  // namespace

void maps_before_concats(Graph& g) {
  const std::vector<int> uses = use_counts(g);
  std::set<ValueId> mapped;  // concatenations that this pass has made
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op == Op::view && mapped.contains(in[0])) return view_of_part(to, node, Node(maker(to, in[0])));
    if (!is_map(node.op)) return std::nullopt;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!is(to, in[i], Op::concat) || uses[node.in[i]] != 1 || !(to.type(in[i]).dims == g.type(node.out[0]).dims)) continue;
      const Node& old = maker(g, node.in[i]);
      if (!mapped.contains(in[i]) && (old.op != Op::concat || !gains(g, uses, old))) continue;
      auto y = map_on_parts(to, node, in, Node(maker(to, in[i])));
      if (y) mapped.insert(*y);
      return y;
    }
    return std::nullopt;
  });
}

}  // namespace ingot::lower
