// A concatenation that contains the parts of an earlier one, one after another, reads that one: next to concat(a, b), concat(a, b, c) is concat(concat(a, b), c).
// Compile places parts of a concatenation inside it, so what a dense block joins again and again is written once, by the kernels that make it. Parts that are
// neighbouring slices of one value are one slice, or the value itself.
#include <algorithm>
#include <map>

#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

// One view of what both read, if `second` goes on along the axis where `first` ends.
std::optional<ValueId> joined(Graph& g, ValueId first, ValueId second, size_t axis) {
  const Node &a = maker(g, first), &b = maker(g, second);
  if (a.op != Op::view || b.op != Op::view || a.in[0] != b.in[0]) return std::nullopt;
  ir::AffineMap map = a.attributes.map("map");
  const ir::AffineMap& next = b.attributes.map("map");
  if (map.fill || next.fill) return std::nullopt;
  for (size_t j = 0; j < map.axes.size(); ++j) {
    Dim ahead = map.axes[j].offset;
    for (const ir::AffineMap::Term& t : map.axes[j].terms) {
      if (t.axis == axis) ahead += map.dims[axis] * Dim(t.coefficient);
    }
    if (!(next.axes[j].offset == ahead) || map.axes[j].terms != next.axes[j].terms) return std::nullopt;
  }
  map.dims[axis] += next.dims[axis];
  return ir::view(Handle(&g, a.in[0]), std::move(map)).id();
}

// A concatenation by its parts, where these are not concatenations along the same axis themselves.
struct Concat {
  int64_t axis;
  std::vector<ValueId> parts;
  ValueId value;
};

}  // namespace

void nest_concats(Graph& g) {
  WeightValues weights(g);
  std::vector<Concat> made;
  std::map<ValueId, size_t> of_value;
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op != Op::concat || in.size() < 2) return std::nullopt;
    if (std::all_of(in.begin(), in.end(), [&](ValueId v) { return weights.contain(to, v); })) return std::nullopt;  // made once, by prepare
    const int64_t axis = node.attributes.integer("axis");
    std::vector<ValueId> parts;
    for (ValueId v : in) {
      const auto inner = of_value.find(v);
      if (inner != of_value.end() && made[inner->second].axis == axis) {
        parts.insert(parts.end(), made[inner->second].parts.begin(), made[inner->second].parts.end());
        continue;
      }
      const auto one = parts.empty() ? std::nullopt : joined(to, parts.back(), v, static_cast<size_t>(axis));
      one ? void(parts.back() = *one) : parts.push_back(v);
    }
    // The longest earlier one.
    const Concat* best = nullptr;
    std::vector<ValueId>::iterator at;
    for (const Concat& c : made) {
      if (c.axis != axis || c.parts.size() < 2 || (best != nullptr && c.parts.size() <= best->parts.size())) continue;
      const auto found = std::search(parts.begin(), parts.end(), c.parts.begin(), c.parts.end());
      if (found != parts.end()) best = &c, at = found;
    }
    std::vector<Handle> outer;
    for (auto p = parts.begin(); p != parts.end(); ++p) {
      const bool earlier = best != nullptr && p == at;
      outer.emplace_back(&to, earlier ? best->value : *p);
      if (earlier) p += static_cast<int64_t>(best->parts.size()) - 1;
    }
    const ValueId y = outer.size() == 1 ? outer[0].id() : ir::concat(outer, axis).id();
    of_value[y] = made.size();
    made.push_back({axis, std::move(parts), y});
    return y;
  });
}

}  // namespace ingot::lower
