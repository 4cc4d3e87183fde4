#include "ir/reshape_groups.h"

#include <algorithm>

namespace ingot::ir {

namespace {

std::vector<size_t> axes_but_ones(const Dims& dims) {
  std::vector<size_t> axes;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!(dims[i] == Dim(1))) axes.push_back(i);
  }
  return axes;
}

// The index of a merged axis, split into indices of the axes of these sizes, outermost first and none of size 1. Each keeps the terms that are
// multiples of what one step of it spans; the others must provably stay below that span.
std::optional<std::vector<AffineMap::Axis>> split_index(AffineMap::Axis rest, const Dims& sizes, const Dims& result) {
  std::vector<AffineMap::Axis> parts(sizes.size());
  for (size_t k = 0; k + 1 < sizes.size(); ++k) {
    int64_t span = 1;
    for (size_t i = k + 1; i < sizes.size(); ++i) {
      auto c = sizes[i].constant();
      if (!c || *c <= 0 || __builtin_mul_overflow(span, *c, &span)) return std::nullopt;
    }
    auto offset = rest.offset.constant();
    if (!offset || *offset < 0) return std::nullopt;
    AffineMap::Axis below{*offset % span, {}};
    parts[k].offset = *offset / span;
    int64_t reach = *offset % span;
    for (const AffineMap::Term& t : rest.terms) {
      if (t.coefficient % span == 0) {
        parts[k].terms.push_back({t.axis, t.coefficient / span});
        continue;
      }
      auto size = result[t.axis].constant();
      if (!size || t.coefficient < 0 || *size <= 0 || *size > (int64_t{1} << 40) || t.coefficient > (int64_t{1} << 20)) return std::nullopt;
      if (__builtin_add_overflow(reach, t.coefficient * (*size - 1), &reach)) return std::nullopt;
      below.terms.push_back(t);
    }
    if (reach >= span) return std::nullopt;
    rest = std::move(below);
  }
  parts.back() = std::move(rest);
  return parts;
}

}  // namespace

std::vector<ReshapeGroup> reshape_groups(const Dims& from, const Dims& to) {
  const std::vector<size_t> old_axes = axes_but_ones(from), new_axes = axes_but_ones(to);
  std::vector<ReshapeGroup> groups;
  size_t i = 0, j = 0;
  while (i < old_axes.size() || j < new_axes.size()) {
    // The fewest axes with equal products; all that is left where there are none.
    Dims products;
    for (size_t b = j; b < new_axes.size(); ++b) products.push_back((b == j ? Dim(1) : products.back()) * to[new_axes[b]]);
    Dim product = 1;
    size_t old_end = i, new_end = j;
    while (old_end < old_axes.size() && new_end == j) {
      product *= from[old_axes[old_end++]];
      auto found = std::find(products.begin(), products.end(), product);
      if (found != products.end()) new_end = j + static_cast<size_t>(found - products.begin()) + 1;
    }
    const bool equal = new_end > j;
    if (!equal) old_end = old_axes.size(), new_end = new_axes.size();
    ReshapeGroup group{{old_axes.begin() + static_cast<int64_t>(i), old_axes.begin() + static_cast<int64_t>(old_end)},
                       {new_axes.begin() + static_cast<int64_t>(j), new_axes.begin() + static_cast<int64_t>(new_end)},
                       equal};
    if (equal || groups.empty() || (!group.from.empty() && !group.to.empty())) {
      groups.push_back(std::move(group));
    } else {  // axes of one shape alone, whose size is 1 when it runs
      ReshapeGroup& last = groups.back();
      last.from.insert(last.from.end(), group.from.begin(), group.from.end());
      last.to.insert(last.to.end(), group.to.begin(), group.to.end());
      last.equal = false;
    }
    i = old_end;
    j = new_end;
  }
  return groups;
}

std::optional<AffineMap> split_map(const Dims& from, const Dims& to) {
  AffineMap map{to, std::vector<AffineMap::Axis>(from.size()), std::nullopt};
  for (const ReshapeGroup& group : reshape_groups(from, to)) {
    if (!group.equal || group.from.size() > 1) return std::nullopt;
    AffineMap::Axis& axis = map.axes[group.from[0]];
    int64_t coefficient = 1;
    for (size_t k = group.to.size(); k-- > 0;) {
      axis.terms.insert(axis.terms.begin(), {static_cast<uint32_t>(group.to[k]), coefficient});
      if (k == 0) break;
      auto size = to[group.to[k]].constant();
      if (!size || *size == 0 || __builtin_mul_overflow(coefficient, *size, &coefficient)) return std::nullopt;
    }
  }
  return map;
}

std::optional<std::vector<std::vector<size_t>>> merged_axes(const Dims& from, const Dims& to) {
  std::vector<std::vector<size_t>> merged(to.size());
  for (ReshapeGroup& group : reshape_groups(from, to)) {
    if (!group.equal || group.to.size() > 1) return std::nullopt;
    merged[group.to[0]] = std::move(group.from);
  }
  return merged;
}

std::optional<AffineMap> before_merge(const AffineMap& map, const Dims& from, const Dims& merged) {
  auto groups = merged_axes(from, merged);
  if (map.fill || !groups) return std::nullopt;
  AffineMap out{map.dims, std::vector<AffineMap::Axis>(from.size()), std::nullopt};
  for (size_t m = 0; m < merged.size(); ++m) {
    const std::vector<size_t>& axes = (*groups)[m];
    if (axes.empty()) continue;
    Dims sizes;
    for (size_t a : axes) sizes.push_back(from[a]);
    auto parts = split_index(map.axes[m], sizes, map.dims);
    if (!parts) return std::nullopt;
    for (size_t k = 0; k < axes.size(); ++k) out.axes[axes[k]] = std::move((*parts)[k]);
  }
  return out;
}

}  // namespace ingot::ir
