#include "ir/strided_layout.h"

#include <algorithm>

namespace ingot::ir {

StridedLayout row_major(const Dims& dims) {
  StridedLayout w{dims, Dims(dims.size(), Dim(1))};
  for (size_t i = dims.size(); i-- > 1;) w.strides[i - 1] = w.strides[i] * dims[i];
  return w;
}

namespace {

// The axes that lead to other elements, outermost in memory first; nullopt if their order is not known.
std::optional<std::vector<size_t>> from_outermost(const StridedLayout& w, std::span<const Symbol> symbols) {
  std::vector<size_t> rest, order;
  for (size_t i = 0; i < w.dims.size(); ++i) {
    if (w.dims[i] == Dim(1) || w.strides[i] == Dim(0)) continue;
    if (known_less(0, w.strides[i], symbols) != Truth::yes) return std::nullopt;
    rest.push_back(i);
  }
  while (!rest.empty()) {
    auto outermost = std::find_if(rest.begin(), rest.end(), [&](size_t i) {
      return std::all_of(rest.begin(), rest.end(), [&](size_t other) { return known_less(w.strides[i], w.strides[other], symbols) == Truth::no; });
    });
    if (outermost == rest.end()) return std::nullopt;
    order.push_back(*outermost);
    rest.erase(outermost);
  }
  return order;
}

// How often `stride` fits into `distance`: exactly, or rounded down where both are numbers. 0 where it is not known.
Dim steps_in(const Dim& distance, const Dim& stride) {
  const Dim steps = floordiv(distance, stride);
  return (distance.is_constant() && stride.is_constant()) || steps * stride == distance ? steps : Dim(0);
}

}  // namespace

std::optional<AffineMap> map_between(const StridedLayout& whole, const StridedLayout& part, std::span<const Symbol> symbols) {
  AffineMap map{part.dims, std::vector<AffineMap::Axis>(whole.dims.size()), std::nullopt};
  if (std::find(part.dims.begin(), part.dims.end(), Dim(0)) != part.dims.end()) return map;  // it reads nothing
  const auto axes = from_outermost(whole, symbols);
  if (!axes) return std::nullopt;
  // A distance in memory is split into steps along the axes, from the outermost on. If something is left over, no element is there.
  Dim left = part.offset - whole.offset;
  if (known_less(left, 0, symbols) != Truth::no) return std::nullopt;
  for (size_t a : *axes) {
    map.axes[a].offset = steps_in(left, whole.strides[a]);
    left = left - map.axes[a].offset * whole.strides[a];
  }
  if (!(left == Dim(0))) return std::nullopt;
  for (size_t k = 0; k < part.dims.size(); ++k) {
    if (part.dims[k] == Dim(1)) continue;
    left = part.strides[k];
    if (known_less(left, 0, symbols) != Truth::no) return std::nullopt;
    for (size_t a : *axes) {
      const Dim steps = steps_in(left, whole.strides[a]);
      if (steps == Dim(0)) continue;
      if (!steps.is_constant()) return std::nullopt;
      map.axes[a].terms.push_back({static_cast<uint32_t>(k), steps.value()});
      left = left - steps * whole.strides[a];
    }
    if (!(left == Dim(0))) return std::nullopt;
  }
  // No index leaves its axis, so that none carries over to the next.
  for (size_t a = 0; a < map.axes.size(); ++a) {
    Dim last = map.axes[a].offset;
    for (const AffineMap::Term& t : map.axes[a].terms) last += Dim(t.coefficient) * (part.dims[t.axis] - Dim(1));
    if (known_less(last, whole.dims[a], symbols) != Truth::yes) return std::nullopt;
  }
  return map;
}

}  // namespace ingot::ir
