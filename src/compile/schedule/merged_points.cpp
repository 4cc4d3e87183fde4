#include "compile/schedule/merged_points.h"

#include <set>

#include "ir/reshape_groups.h"

namespace ingot::compile {

using namespace ir;

namespace {

std::optional<Point> through_permutation(const AffineMap& map, const Point& inner) {
  Point out(map.dims.size());
  for (size_t a = 0; a < map.axes.size(); ++a) {
    const AffineMap::Axis& axis = map.axes[a];
    if (axis.terms.empty()) continue;
    if (!(axis.offset == Dim(0)) || axis.terms.size() != 1 || axis.terms[0].coefficient != 1) return std::nullopt;
    out[axis.terms[0].axis] = inner[a];
  }
  return out;
}

std::optional<Point> through_merge(const Dims& from, const Dims& to, const Point& inner) {
  const auto groups = merged_axes(from, to);
  if (!groups) return std::nullopt;
  Point out(to.size());
  for (size_t j = 0; j < to.size(); ++j) {
    Dim stride = 1;
    for (size_t k = (*groups)[j].size(); k-- > 0; stride *= from[(*groups)[j][k]]) add(out[j], scaled(inner[(*groups)[j][k]], stride));
  }
  return out;
}

// `without`: values below which there is no such point; each is looked at once.
std::optional<Point> point_over_anchor(const StoragePlan& s, ValueId v, ValueId anchor, bool itself, std::set<ValueId>& without) {
  const Graph& g = s.graph();
  const Dims& dims = g.type(v).dims;
  if (v == anchor) {
    Point out(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) out[d].terms[static_cast<uint32_t>(d)] = 1;
    return out;
  }
  if ((!itself && s.stored[v]) || !without.insert(v).second) return std::nullopt;
  const Node& node = g.producer(v);
  if (is_map(node.op)) {
    for (ValueId in : node.in) {
      if (!(g.type(in).dims == dims)) continue;
      if (auto point = point_over_anchor(s, in, anchor, false, without)) return point;
    }
    return std::nullopt;
  }
  const bool permutes = node.op == Op::view && !node.attributes.map("map").fill && is_bijective(node.attributes.map("map"), g.type(node.in[0]).dims);
  if (!permutes && node.op != Op::reshape) return std::nullopt;
  const auto inner = point_over_anchor(s, node.in[0], anchor, false, without);
  if (!inner) return std::nullopt;
  return permutes ? through_permutation(node.attributes.map("map"), *inner) : through_merge(g.type(node.in[0]).dims, dims, *inner);
}

}  // namespace

std::optional<Point> point_over_anchor(const StoragePlan& s, ValueId v, ValueId anchor, bool itself) {
  std::set<ValueId> without;
  return point_over_anchor(s, v, anchor, itself, without);
}

std::optional<Point> split_coordinate(Coordinate merged, std::span<const Dim> sizes, const Dims& domain) {
  Point out(sizes.size());
  if (!(merged.offset == Dim(0))) return std::nullopt;
  for (size_t k = sizes.size(); k-- > 1;) {
    const auto size = sizes[k].constant();
    if (!size || *size < 1) return std::nullopt;
    Coordinate outer;
    int64_t reach = 0;
    for (const auto& [axis, coefficient] : merged.terms) {
      const auto by = coefficient.constant(), extent = domain[axis].constant();
      if (by && *by % *size == 0) {
        outer.terms[axis] = *by / *size;
        continue;
      }
      if (!by || *by < 1 || !extent) return std::nullopt;
      reach += *by * (*extent - 1);
      out[k].terms[axis] = *by;
    }
    if (reach >= *size) return std::nullopt;
    merged = std::move(outer);
  }
  out[0] = std::move(merged);
  return out;
}

}  // namespace ingot::compile
