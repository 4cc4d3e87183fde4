#include "backend/cuda/kernels/gemm/im2col_3d/run/shape.h"

#include <algorithm>
#include <vector>

namespace ingot::kernels {

std::optional<Im2col3dAxes> im2col_3d_axes(const GemmMap& map, std::span<const int64_t> sizes) {
  const int indices = map.m_rank + map.k_rank, of_m = map.m_rank;
  if (sizes.size() != static_cast<size_t>(indices) + map.rank) return std::nullopt;
  auto step = [&](int axis, int index) { return map.steps[static_cast<size_t>(axis * indices + index)]; };
  auto size = [&](int index) { return sizes[static_cast<size_t>(index)]; };
  auto offset = [&](int axis) { return sizes[static_cast<size_t>(indices + axis)]; };
  // The only index in a range that moves along an axis; -1: none. nullopt: several, or not by one element.
  auto index_of = [&](int axis, int from, int to) -> std::optional<int> {
    int found = -1;
    for (int i = from; i < to; ++i) {
      if (step(axis, i) == 0 || size(i) == 1) continue;
      if (found >= 0 || step(axis, i) != 1) return std::nullopt;
      found = i;
    }
    return found;
  };
  Im2col3dAxes out;
  Im2col3d& n = out.numbers;
  n.channels = n.kernel[0] = n.kernel[1] = n.kernel[2] = 1;
  struct Axis {
    int axis, place, tap;
  };
  std::vector<Axis> moved;  // axes with places
  int channel = -1;         // index of k
  for (int j = 0; j < map.rank; ++j) {
    const auto place = index_of(j, 0, of_m), tap = index_of(j, of_m, indices);
    if (!place || !tap) return std::nullopt;
    if (*place < 0 && *tap < 0) {
      if (offset(j) != 0) return std::nullopt;
    } else if (*place < 0) {
      if (out.channel >= 0 || offset(j) != 0) return std::nullopt;
      out.channel = j;
      channel = *tap;
    } else {
      moved.push_back({j, *place, *tap});
    }
  }
  // Indices of m are images, then places; those of K taps, then or before them channels.
  for (const Axis& a : moved) {
    const bool tapped = a.tap >= 0 || offset(a.axis) != 0;
    if (&a == moved.data() && !tapped && moved.size() > 1) {
      out.image = a.place;
      out.images = a.axis;
      continue;
    }
    const size_t behind = static_cast<size_t>(moved.data() + moved.size() - &a);
    if (behind > 3) return std::nullopt;
    const size_t d = 3 - behind;
    out.axis[d] = a.axis;
    out.place[d] = a.place;
    if (a.tap >= 0) n.kernel[d] = static_cast<int>(size(a.tap));
    if ((a.tap >= 0 && (size(a.tap) < 1 || size(a.tap) > 16)) || offset(a.axis) > 0 || offset(a.axis) < -64) return std::nullopt;
  }
  int before = out.image, last_tap = -1, first_tap = indices;
  for (size_t d = 0; d < 3; ++d) {
    if (out.place[d] < 0) continue;
    if (out.place[d] <= before) return std::nullopt;
    before = out.place[d];
  }
  for (const Axis& a : moved) {
    if (a.tap < 0) continue;
    if (a.tap <= last_tap) return std::nullopt;
    last_tap = a.tap;
    first_tap = std::min(first_tap, a.tap);
  }
  if (last_tap < 0 || out.axis[0] < 0) return std::nullopt;
  for (int i = 0; i < indices; ++i) {
    int axes = 0;
    for (int j = 0; j < map.rank; ++j) axes += size(i) != 1 && step(j, i) != 0;
    if (size(i) != 1 && axes != 1) return std::nullopt;
  }
  if (channel >= 0) {
    if (size(channel) < 1 || size(channel) > 64 || (channel > first_tap && channel < last_tap)) return std::nullopt;
    n.channels = static_cast<int>(size(channel));
  }
  n.last = channel < 0 || channel > last_tap ? 1 : 0;
  return out;
}

void spread(Im2col3d& s, std::span<const int64_t, 4> extents, int64_t columns, int max_shared) {
  struct Shape {
    int deep, high, lines;
  };
  static constexpr Shape shapes[] = {{4, 2, 4}, {2, 2, 4}, {2, 2, 2}, {2, 2, 1}};
  auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  for (const Shape& t : shapes) {
    s.deep = t.deep, s.high = t.high, s.lines = t.lines;
    if (s.shared() > max_shared) continue;
    if (std::any_of(extents.begin(), extents.end(), [](int64_t n) { return n < 0; })) return;
    if (extents[0] * up(extents[1], s.deep) * up(extents[2], s.down()) * up(extents[3], s.across) * up(columns, int64_t{16} * s.wide) >= gemm::im2col_3d_tuning::min_blocks) return;
  }
}

bool is_possible(const Im2col3d& s) {
  auto within = [](int v, int from, int to) { return v >= from && v <= to; };
  // The copying unit's vectors are full with more channels. Windows along fewer axes read an element too few times.
  const bool few_channels = (s.size == 2 || s.size == 4) && within(s.channels, 1, 95 / s.size),
             window = within(s.kernel[0], 2, 7) && within(s.kernel[1], 2, 5) && within(s.kernel[2], 2, 7);
  const bool block = within(s.wide, 1, 2) && within(s.deep, 1, 4) && within(s.high, 1, 2) && within(s.deep * s.high, 4, 8) && within(s.lines, 1, 4) && within(s.last, 0, 1);
  if (!few_channels || !window || !block) return false;
  return s.steps() <= gemm::im2col_3d_tuning::max_steps && s.shared() <= gemm::im2col_3d_tuning::shared_bytes;
}

}  // namespace ingot::kernels
