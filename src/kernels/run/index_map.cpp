#include "kernels/run/index_map.h"

#include <algorithm>

#include "base/error.h"

namespace ingot::kernels {

IndexMap resolve_index_map(const char* step, std::span<const int64_t> steps, const TensorRef& a, std::span<const int64_t> sizes) {
  constexpr int64_t large = max_map_extent;
  auto refuse = [&](const char* what) { fail(Code::format, "{}: {}", step, what); };
  const auto rank = static_cast<size_t>(a.rank);
  if (rank == 0 || rank > IndexMap::max_axes || sizes.size() <= rank || steps.size() != rank * (sizes.size() - rank))
    refuse("the operand read through a map does not have the map's rank");
  const size_t indices = sizes.size() - rank;
  for (int64_t size : sizes) {
    if (size < -large || size > large) refuse("a size of the map is impossible");
  }
  IndexMap m;
  m.indices.resize(indices);
  for (size_t i = 0; i < indices; ++i) {
    m.indices[i].extent = sizes[i];
    if (sizes[i] < 0) refuse("an extent of the map is negative");
  }
  for (size_t j = 0; j < rank; ++j) {
    const int64_t offset = sizes[indices + j], *along = steps.data() + j * indices;
    const auto stride = static_cast<uint64_t>(a.strides[j]);
    m.start.offset += static_cast<uint64_t>(offset) * stride;
    __int128 greatest = offset;
    for (size_t i = 0; i < indices; ++i) {
      m.indices[i].step += static_cast<uint64_t>(along[i]) * stride;
      greatest += static_cast<__int128>(along[i]) * std::max<int64_t>(m.indices[i].extent - 1, 0);
    }
    if (greatest > large) refuse("the map reaches too far");
    if (offset >= 0 && greatest < a.dims[j]) continue;  // the map always stays inside
    const int b = m.axes++;
    m.size[b] = a.dims[j];
    m.start.along[b] = offset;
    for (size_t i = 0; i < indices; ++i) m.indices[i].along[b] = along[i];
  }
  return m;
}

std::vector<IndexMap::Index> collapsed(const std::vector<IndexMap::Index>& indices, int axes) {
  std::vector<IndexMap::Index> out;
  for (const IndexMap::Index& inner : indices) {
    if (inner.extent == 1 && indices.size() > 1) continue;
    IndexMap::Index* outer = out.empty() ? nullptr : &out.back();
    bool one = outer != nullptr && outer->step == inner.step * static_cast<uint64_t>(inner.extent);
    for (int b = 0; b < axes && one; ++b) one = outer->along[b] == inner.along[b] * inner.extent;
    if (!one) {
      out.push_back(inner);
      continue;
    }
    const int64_t extent = outer->extent * inner.extent;
    *outer = inner;
    outer->extent = extent;
  }
  if (out.empty()) out.push_back(indices.back());
  return out;
}

}  // namespace ingot::kernels
