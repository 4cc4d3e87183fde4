// A concatenation that only pointwise operations read (RoPE's rotate_half, its doubled angles) becomes a select by index between its parts, read at shifted
// places. It then fuses and is not stored. One that many operations read, such as the places of a pooling's window, is stored: each of them would select anew.
// So is one of different products' results: their kernels write them there.
#include <algorithm>
#include <set>

#include "lower/passes.h"
#include "lower/rewrite.h"
#include "lower/tuning.h"

namespace ingot::lower {

namespace {

// The part in the concatenated shape, shifted along the axis. Outside of the part any element may be read: the select discards it.
Handle shifted(Graph& g, ValueId part, const ir::AffineMap& map, int depth = 0) {
  const Node n = maker(g, part);
  if (is_map(n.op) && n.in.size() == 1 && depth < 4) {
    Handle x = shifted(g, n.in[0], map, depth + 1);
    ir::Type type = infer(g, n.op, {x.id()}, n.attributes)[0];
    return Handle(&g, g.add(n.op, {x.id()}, n.attributes, std::move(type)));
  }
  ir::AffineMap full = map;
  ValueId source = part;
  if (n.op == Op::view && !n.attributes.map("map").fill) {
    ir::AffineMap both = compose(map, n.attributes.map("map"));
    if (is_guardable(g, n.in[0], both)) {
      full = std::move(both);
      source = n.in[0];
    }
  }
  ir::DType t = g.type(source).dtype;
  if (t == ir::DType::b8) {
    full.fill.emplace(false);
  } else if (is_float(t)) {
    full.fill.emplace(0.0);
  } else {
    full.fill.emplace(0);
  }
  return ir::view(Handle(&g, source), std::move(full));
}

}  // namespace

void concat_to_select(Graph& g) {
  WeightValues weights(g);
  auto users = g.users();
  std::vector<bool> is_output(g.values.size(), false);
  for (const ir::Output& o : g.outputs) is_output[o.value] = true;
  // A few pointwise operations, directly or after views that are read in place.
  auto fuses = [&](auto&& self, ValueId v, int depth, size_t& readers) -> bool {
    if (is_output[v] || users[v].empty() || depth > 3) return false;
    for (ir::NodeId u : users[v]) {
      const Node& n = g.nodes[u];
      if (is_map(n.op) ? ++readers > tuning::max_chosen_readers : n.op != Op::view || !self(self, n.out[0], depth + 1, readers)) return false;
    }
    return true;
  };
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    size_t readers = 0;
    if (node.op != Op::concat || in.size() > tuning::max_chosen_parts || in.size() < 2 || !fuses(fuses, node.out[0], 0, readers)) return std::nullopt;
    if (std::all_of(in.begin(), in.end(), [&](ValueId v) { return weights.contain(to, v); })) return std::nullopt;  // made once, by prepare
    if (std::any_of(in.begin(), in.end(), [&](ValueId v) { return is(to, v, Op::concat); })) return std::nullopt;   // that is stored, inside this one
    std::set<ValueId> products;
    for (ValueId v : in) {
      if (auto product = product_below(to, v)) products.insert(*product);
    }
    if (products.size() > 1) return std::nullopt;
    auto axis = static_cast<size_t>(node.attributes.integer("axis"));
    const Dims dims = g.type(node.out[0]).dims;
    Dims line(dims.size() - axis, Dim(1));
    line[0] = dims[axis];
    Handle place = ir::index(to, line, 0);
    std::vector<Dim> starts{0};
    for (ValueId v : in) starts.push_back(starts.back() + to.type(v).dims[axis]);
    std::optional<Handle> result;
    for (size_t i = in.size(); i-- > 0;) {
      ir::AffineMap map;
      map.dims = dims;
      for (size_t a = 0; a < dims.size(); ++a) {
        map.axes.push_back({a == axis ? -starts[i] : Dim(0), {{static_cast<uint32_t>(a), 1}}});
      }
      Handle part = shifted(to, in[i], map);
      result = result ? ir::select(place < ir::Operand(starts[i + 1]), part, *result) : part;
    }
    return result->id();
  });
}

}  // namespace ingot::lower
