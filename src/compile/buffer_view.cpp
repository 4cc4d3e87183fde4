#include "compile/buffer_view.h"

#include <algorithm>

#include "ir/encoded_sizes.h"
#include "ir/reshape_groups.h"

namespace ingot::compile {

using ir::AffineMap;
using ir::Dim;
using ir::Dims;

ir::Dim bytes_of(const ir::Type& t) { return storage_bytes({.storage = t.dtype}, t.dims); }

std::optional<StridedLayout> through_view(const StridedLayout& w, const AffineMap& map) {
  if (map.fill) return std::nullopt;
  StridedLayout out{map.dims, Dims(map.dims.size(), Dim(0)), w.offset};
  for (size_t j = 0; j < map.axes.size(); ++j) {
    out.offset += w.strides[j] * map.axes[j].offset;
    for (const AffineMap::Term& t : map.axes[j].terms) out.strides[t.axis] += w.strides[j] * Dim(t.coefficient);
  }
  return out;
}

std::optional<StridedLayout> through_reshape(const StridedLayout& w, const Dims& to) {
  StridedLayout out{to, Dims(to.size(), Dim(0)), w.offset};
  if (std::find(to.begin(), to.end(), Dim(0)) != to.end()) return StridedLayout{to, row_major(to).strides, w.offset};  // no elements, so strides do not matter
  for (const ir::ReshapeGroup& group : ir::reshape_groups(w.dims, to)) {
    // The old axes of a group must be contiguous with each other.
    for (size_t k = 1; k < group.from.size(); ++k) {
      const size_t outer = group.from[k - 1], inner = group.from[k];
      if (!(w.strides[outer] == w.strides[inner] * w.dims[inner])) return std::nullopt;
    }
    Dim stride = group.from.empty() ? Dim(0) : w.strides[group.from.back()];
    for (size_t k = group.to.size(); k-- > 0;) {
      out.strides[group.to[k]] = stride;
      stride *= to[group.to[k]];
    }
  }
  return out;
}

std::optional<StridedLayout> through(const StridedLayout& w, const ir::Graph& g, const ir::Node& n) {
  return n.op == ir::Op::reshape ? through_reshape(w, g.type(n.out[0]).dims) : through_view(w, n.attributes.map("map"));
}

bool is_bijective(const AffineMap& map, const Dims& operand) {
  if (map.fill) return false;
  std::vector<bool> used(map.dims.size(), false);
  for (size_t j = 0; j < map.axes.size(); ++j) {
    const AffineMap::Axis& axis = map.axes[j];
    if (!(axis.offset == Dim(0))) return false;
    if (axis.terms.empty()) {
      if (!(operand[j] == Dim(1))) return false;
      continue;
    }
    if (axis.terms.size() != 1 || axis.terms[0].coefficient != 1) return false;
    uint32_t a = axis.terms[0].axis;
    if (used[a] || !(map.dims[a] == operand[j])) return false;
    used[a] = true;
  }
  for (size_t a = 0; a < used.size(); ++a) {
    if (!used[a] && !(map.dims[a] == Dim(1))) return false;
  }
  return true;
}

std::optional<StridedLayout> before_view(const StridedLayout& w, const AffineMap& map, const Dims& operand) {
  if (map.fill) return std::nullopt;
  StridedLayout out{operand, Dims(operand.size(), Dim(0)), w.offset};
  std::vector<bool> used(map.dims.size(), false);
  for (size_t j = 0; j < map.axes.size(); ++j) {
    const AffineMap::Axis& axis = map.axes[j];
    if (!(axis.offset == Dim(0))) return std::nullopt;
    std::vector<AffineMap::Term> terms;  // innermost first
    for (const AffineMap::Term& t : axis.terms) {
      if (!(map.dims[t.axis] == Dim(1))) terms.push_back(t);
    }
    std::sort(terms.begin(), terms.end(), [](const auto& x, const auto& y) { return x.coefficient < y.coefficient; });
    // The view's axes split the operand's axis like digits of its index, and are contiguous with each other.
    Dim elements = 1;
    for (size_t k = 0; k < terms.size(); ++k) {
      const size_t a = terms[k].axis;
      if (used[a] || !(Dim(terms[k].coefficient) == elements)) return std::nullopt;
      if (k == 0) out.strides[j] = w.strides[a];
      if (!(w.strides[a] == out.strides[j] * elements)) return std::nullopt;
      used[a] = true;
      elements *= map.dims[a];
    }
    if (!(elements == operand[j])) return std::nullopt;
  }
  for (size_t a = 0; a < used.size(); ++a) {
    if (!used[a] && !(map.dims[a] == Dim(1))) return std::nullopt;
  }
  return out;
}

bool has_same_elements(const StridedLayout& a, const StridedLayout& b) {
  bool same = a.offset == b.offset && a.dims == b.dims;
  for (size_t d = 0; same && d < a.dims.size(); ++d) same = a.dims[d] == Dim(1) || a.strides[d] == b.strides[d];
  return same;
}

BufferView with_batch(BufferView place, const Dims& batch) {
  StridedLayout& w = place.layout;
  size_t have = w.dims.size() - 2;
  for (size_t i = 0; i < have; ++i) {
    if (w.dims[i] == Dim(1)) w.strides[i] = 0;
  }
  w.strides.insert(w.strides.begin(), batch.size() - have, Dim(0));
  Dims dims = batch;
  dims.push_back(w.dims[w.dims.size() - 2]);
  dims.push_back(w.dims.back());
  w.dims = std::move(dims);
  return place;
}

}  // namespace ingot::compile
