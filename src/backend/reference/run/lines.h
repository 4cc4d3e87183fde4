// Iterates over the lines of a tensor along one axis.
#pragma once
#include <array>
#include <span>

#include "kernels/run/elements.h"

namespace ingot::backend::reference {

using kernels::TensorRef;

inline int64_t length_of(const TensorRef& t, int axis) { return t.rank == 0 ? 1 : t.dims[axis]; }

// Offset of element `i` of the line at `at`.
inline int64_t offset_of(const TensorRef& t, std::span<const int64_t> at, int axis, int64_t i) {
  int64_t offset = 0;
  for (int d = 0; d < t.rank; ++d) offset += (d == axis ? i : at[static_cast<size_t>(d)]) * t.strides[d];
  return offset;
}

// Calls fn(coordinates) for each line, with 0 on the axis.
template <class F>
void each_line(const TensorRef& t, int axis, F fn) {
  std::array<int64_t, kernels::max_rank> dims{}, at{};
  int64_t lines = 1;
  for (int d = 0; d < t.rank; ++d) lines *= dims[static_cast<size_t>(d)] = d == axis ? 1 : t.dims[d];
  const TensorRef first{nullptr, t.dtype, t.rank, dims.data(), nullptr};
  for (int64_t n = 0; n < lines; ++n) {
    kernels::coordinates(n, first, at.data());
    fn(std::span<const int64_t>(at.data(), static_cast<size_t>(t.rank)));
  }
}

}  // namespace ingot::backend::reference
