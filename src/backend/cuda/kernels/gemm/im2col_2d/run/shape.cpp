#include "backend/cuda/kernels/gemm/im2col_2d/run/shape.h"

#include <vector>

#include "backend/cuda/run/hardware.h"

namespace ingot::kernels {

std::optional<Im2col2dAxes> im2col_2d_axes(const GemmMap& map, std::span<const int64_t> sizes) {
  const int of_m = map.m_rank, indices = of_m + map.k_rank;
  auto step = [&](int axis, int index) { return map.steps[static_cast<size_t>(axis * indices + index)]; };
  auto size = [&](int index) { return sizes[static_cast<size_t>(index)]; };
  auto offset = [&](int axis) { return sizes[static_cast<size_t>(indices + axis)]; };
  std::vector<int> k;
  for (int i = of_m; i < indices; ++i) {
    if (size(i) < 1 || size(i) > 64) return std::nullopt;
    if (size(i) != 1) k.push_back(i);
  }
  if (k.size() != 2 && k.size() != 3) return std::nullopt;
  // The only axis along which an index moves, or the only index of m that moves along an axis; -1: none, or several.
  auto axis_of = [&](int index) {
    int found = -1;
    for (int j = 0; j < map.rank; ++j) {
      if (step(j, index) == 0) continue;
      if (found >= 0) return -1;
      found = j;
    }
    return found;
  };
  auto index_of = [&](int axis) {
    int found = -1;
    for (int i = 0; i < of_m; ++i) {
      if (step(axis, i) == 0) continue;
      if (found >= 0) return -1;
      found = i;
    }
    return found;
  };
  Im2col2dAxes out;
  Im2col2d& n = out.numbers;
  n.channels = k.size() == 3 ? static_cast<int>(size(k[0])) : 1;
  if (k.size() == 3 && ((out.c = axis_of(k[0])) < 0 || step(out.c, k[0]) != 1)) return std::nullopt;
  for (int d = 0; d < 2; ++d) {
    const int tap = k[k.size() - 2 + static_cast<size_t>(d)], axis = axis_of(tap), place = axis < 0 ? -1 : index_of(axis);
    if (place < 0 || axis == out.c || axis_of(place) != axis) return std::nullopt;
    const bool fits = step(axis, tap) == 1 && step(axis, place) <= 64 && offset(axis) <= 0 && offset(axis) >= -64;
    if (!fits) return std::nullopt;
    (d == 0 ? out.h : out.w) = axis;
    (d == 0 ? out.y : out.x) = place;
    n.kernel[d] = static_cast<int>(size(tap));
    n.stride[d] = static_cast<int>(step(axis, place));
    n.pad[d] = static_cast<int>(-offset(axis));
  }
  if (out.h == out.w || out.y > out.x) return std::nullopt;
  for (int i = 0; i < of_m; ++i) {
    if (i == out.y || i == out.x || size(i) == 1) continue;
    if (out.image >= 0 || i > out.y) return std::nullopt;
    out.image = i;
  }
  for (int j = 0; j < map.rank; ++j) {
    if (j != out.h && j != out.w && offset(j) != 0) return std::nullopt;
  }
  return out;
}

bool is_possible(const Im2col2d& s) {
  auto within = [](int v, int from, int to) { return v >= from && v <= to; };
  if (!within(s.channels, 1, 64) || (s.size != 2 && s.size != 4) || !within(s.last, 0, 1) || !within(s.wide, 1, 4)) return false;
  for (int d = 0; d < 2; ++d) {
    if (!within(s.kernel[d], 2, 64) || !within(s.stride[d], 1, 64) || !within(s.pad[d], 0, 64)) return false;
  }
  return s.steps() <= gemm::im2col_2d_tuning::max_steps && s.shared() <= backend::cuda::hardware::shared_of_block;
}

}  // namespace ingot::kernels
