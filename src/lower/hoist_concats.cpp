// Concatenations of the same views of several values are views of one concatenation of the values. Joint attention over images and text splits two merged
// projections into queries, keys and values, and joins each: now the projections are joined, once, and compile lets the matmuls write there.
#include <algorithm>
#include <map>
#include <set>

#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

using ir::AffineMap;

// What a concatenation reads: views of `bases` that differ only in their lengths along the concatenation's axis; along `axis` each is as long as its base.
struct SameViews {
  std::vector<ValueId> bases;
  uint32_t axis;  // of the bases
  AffineMap map;  // of the concatenated bases
  using Key = std::pair<std::vector<ValueId>, uint32_t>;
  Key key() const { return {bases, axis}; }
};

// The one axis of a view's operand that the view's axis `along` walks from its begin to its end.
std::optional<uint32_t> whole_axis(const AffineMap& map, const Dims& operand, uint32_t along) {
  std::optional<uint32_t> found;
  for (uint32_t j = 0; j < map.axes.size(); ++j) {
    const AffineMap::Axis& a = map.axes[j];
    if (std::none_of(a.terms.begin(), a.terms.end(), [&](const AffineMap::Term& t) { return t.axis == along; })) continue;
    const bool whole = a.offset == Dim(0) && a.terms.size() == 1 && a.terms[0].coefficient == 1 && operand[j] == map.dims[along];
    if (found || !whole) return std::nullopt;
    found = j;
  }
  return found;
}

std::optional<SameViews> same_views(const Graph& g, const std::vector<ValueId>& parts, uint32_t along) {
  SameViews out;
  for (ValueId part : parts) {
    const Node& view = maker(g, part);
    if (view.op != Op::view || view.attributes.map("map").fill) return std::nullopt;
    const AffineMap& map = view.attributes.map("map");
    const Dims& dims = g.type(view.in[0]).dims;
    const auto axis = whole_axis(map, dims, along);
    if (!axis) return std::nullopt;
    if (out.bases.empty()) {
      out.axis = *axis;
      out.map = map;
    } else {
      const Dims& first = g.type(out.bases[0]).dims;
      if (*axis != out.axis || map.axes != out.map.axes || dims.size() != first.size()) return std::nullopt;
      for (size_t i = 0; i < map.dims.size(); ++i) {
        if (i != along && !(map.dims[i] == out.map.dims[i])) return std::nullopt;
      }
      for (size_t j = 0; j < dims.size(); ++j) {
        if (j != out.axis && !(dims[j] == first[j])) return std::nullopt;
      }
      out.map.dims[along] += map.dims[along];
    }
    out.bases.push_back(view.in[0]);
  }
  return out;
}

}  // namespace

void hoist_concats(Graph& g) {
  auto views_of = [](const Graph& of, const Node& node, const std::vector<ValueId>& in) -> std::optional<SameViews> {
    if (node.op != Op::concat || in.size() < 2) return std::nullopt;
    return same_views(of, in, static_cast<uint32_t>(node.attributes.integer("axis")));
  };
  struct Group {
    std::set<ValueId> results;
    Dim read = 0;
  };
  std::map<SameViews::Key, Group> groups;
  for (const Node& node : g.nodes) {
    const auto found = views_of(g, node, node.in);
    if (!found) continue;
    Group& group = groups[found->key()];
    group.results.insert(node.out[0]);
    group.read += product(found->map.dims);
  }
  // Only several concatenations that together read each element of the bases: one concatenation of these moves no more.
  std::set<ValueId> hoisted;
  for (const auto& [key, group] : groups) {
    Dim held = 0;
    for (ValueId base : key.first) held += product(g.type(base).dims);
    if (group.results.size() > 1 && group.read == held) hoisted.insert(group.results.begin(), group.results.end());
  }
  if (hoisted.empty()) return;
  std::map<SameViews::Key, ValueId> made;
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op != Op::concat || !hoisted.contains(node.out[0])) return std::nullopt;
    auto found = views_of(to, node, in);
    if (!found) return std::nullopt;
    auto [joined, is_new] = made.try_emplace(found->key());
    if (is_new) {
      std::vector<Handle> bases;
      for (ValueId base : found->bases) bases.emplace_back(&to, base);
      joined->second = ir::concat(bases, found->axis).id();
    }
    return ir::view(Handle(&to, joined->second), std::move(found->map)).id();
  });
}

}  // namespace ingot::lower
