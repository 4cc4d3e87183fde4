#include "backend/cuda/kernels/gemm/tiles/run/tile_maps.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <numeric>

namespace ingot::kernels {

namespace {

// True for a stride in bytes that a tensor map can have.
bool is_usable(int64_t stride) { return stride > 0 && stride % 16 == 0 && stride < int64_t{1} << 39; }

// A as a matrix. False if the copying unit cannot describe it.
bool describe_rows(const GemmCall& c, int64_t channels, int64_t size, CudaTiles& a) {
  const int64_t step = c.walk.m_extent[3] == 1 ? channels * size : c.walk.m_step[3] * size;
  if (c.walk.origin[0] != 0 || c.walk.origin[1] != 0 || !is_usable(step)) return false;
  const auto across = static_cast<uint64_t>(channels);
  a.dims = {across, 1, static_cast<uint64_t>(c.size.m)};
  a.strides = {across * static_cast<uint64_t>(size), static_cast<uint64_t>(step)};
  return true;
}

// A as an image or a volume, whose pixels are read in the order of their positions: axes with guards, and axes of windows that never leave A. Also sets the positions in
// `p`. False if the copying unit cannot describe it.
template <class P>
bool describe_pixels(bool volume, const GemmWalk& w, P& p, int64_t channels, int64_t size, CudaTiles& a) {
  // Positions (n, h, w) or (n, d, h, w).
  const int axes = volume ? 3 : 2, images = 3 - axes;  // m_extent[images]: n
  const int64_t furthest = axes == 2 ? 128 : 16, max_taps = axes == 2 ? 255 : 31;  // limits of a tensor map
  a.pixels = true;
  a.rank = 2 + axes;
  int64_t unit[3], inside[3], step[3], tap[3], first[3];  // of w, h, d
  bool watched[3] = {};                                   // guards that belong to an axis
  bool windows = false;                                   // on an axis without a guard
  for (int axis = 0; axis < axes; ++axis) {
    const int m = 3 - axis, k = 2 - axis;
    int g = 0;
    while (g < 3 && w.m_guard[g][m] == 0 && w.k_guard[g][k] == 0) ++g;
    if (g == 3) {
      const int64_t move = w.m_extent[m] == 1 ? 0 : w.m_step[m], to_tap = w.k_extent[k] == 1 ? 0 : w.k_step[k];
      unit[axis] = std::gcd(move, to_tap);
      step[axis] = move == 0 ? 1 : move / unit[axis];
      tap[axis] = to_tap == 0 ? 0 : to_tap / unit[axis];
      inside[axis] = 1 + step[axis] * (w.m_extent[m] - 1) + tap[axis] * (w.k_extent[k] - 1);
      first[axis] = 0;
      windows = windows || to_tap != 0;
      const bool goes_forward = move >= 0 && to_tap >= 0 && (move > 0 || w.m_extent[m] == 1);
      if (!goes_forward || step[axis] > 8 || tap[axis] * (w.k_extent[k] - 1) > max_taps) return false;
      continue;
    }
    if (watched[g]) return false;
    watched[g] = true;
    for (int i = 0; i < 4; ++i) {
      if ((i != m && w.m_guard[g][i] != 0) || (i != k && w.k_guard[g][i] != 0)) return false;
    }
    step[axis] = w.m_extent[m] == 1 ? 1 : w.m_guard[g][m];
    tap[axis] = w.k_extent[k] == 1 ? 0 : w.k_guard[g][k];
    first[axis] = w.origin[g];
    inside[axis] = w.inside[g];
    if (w.m_extent[m] != 1) {
      unit[axis] = step[axis] == 0 ? 0 : w.m_step[m] / step[axis];
    } else {
      unit[axis] = tap[axis] == 0 ? 0 : w.k_step[k] / tap[axis];
    }
    if (step[axis] < 1 || step[axis] > 8 || tap[axis] < 0 || first[axis] < -furthest || first[axis] >= furthest) return false;
    if (w.m_extent[m] != 1 && w.m_step[m] != unit[axis] * step[axis]) return false;
    if (w.k_extent[k] != 1 && w.k_step[k] != unit[axis] * tap[axis]) return false;
    if (tap[axis] * (w.k_extent[k] - 1) > max_taps) return false;
    a.offset -= first[axis] * unit[axis] * size;
  }
  // A guard that belongs to no axis must depend on no index, and always be inside.
  for (int g = 0; g < 3; ++g) {
    if (!watched[g] && (w.origin[g] < 0 || w.origin[g] >= w.inside[g])) return false;
    for (int i = 0; i < 4 && !watched[g]; ++i) {
      if (w.m_guard[g][i] != 0 || w.k_guard[g][i] != 0) return false;
    }
  }
  // Unused strides may have any valid value.
  if (unit[0] == 0) unit[0] = channels;
  for (int axis = 1; axis < axes; ++axis) {
    if (unit[axis] == 0) unit[axis] = unit[axis - 1] * inside[axis - 1];
  }
  const int64_t image = w.m_extent[images] == 1 ? unit[axes - 1] * inside[axes - 1] : w.m_step[images];
  // What looks like windows are windows only if pixels, lines and planes do not overlap.
  for (int axis = 0; windows && axis <= axes; ++axis) {
    if ((axis == axes ? image : unit[axis]) < (axis == 0 ? channels : unit[axis - 1] * inside[axis - 1])) return false;
  }
  if (!is_usable(image * size) || a.offset < 0 || a.offset % 16 != 0) return false;
  a.dims[0] = static_cast<uint64_t>(channels);
  for (int axis = 0; axis < axes; ++axis) {
    if (!is_usable(unit[axis] * size)) return false;
    const int64_t last = first[axis] + (w.m_extent[3 - axis] - 1) * step[axis], beyond = last - (inside[axis] - 1);
    if (beyond < -furthest || beyond >= furthest) return false;
    a.dims[static_cast<size_t>(axis) + 1] = static_cast<uint64_t>(inside[axis]);
    a.strides[static_cast<size_t>(axis)] = static_cast<uint64_t>(unit[axis] * size);
    a.lower[static_cast<size_t>(axis)] = p.first[axis] = static_cast<int>(first[axis]);
    a.upper[static_cast<size_t>(axis)] = static_cast<int>(beyond);
    a.steps[static_cast<size_t>(axis) + 1] = static_cast<uint32_t>(step[axis]);
    p.step[axis] = static_cast<int>(step[axis]);
    p.tap_step[axis] = static_cast<int>(tap[axis]);
  }
  a.dims[static_cast<size_t>(axes) + 1] = static_cast<uint64_t>(w.m_extent[images]);
  a.strides[static_cast<size_t>(axes)] = static_cast<uint64_t>(image * size);
  return true;
}

}  // namespace

template <int Parts>
std::optional<TileMaps> tiles_of(const GemmCall& call, TilesParametersOf<Parts>& p) {
  using P = TilesParametersOf<Parts>;
  const GemmArgs& args = call.args;
  const GemmWalk& w = call.walk;
  const auto size = static_cast<int64_t>(ir::size_of(args.type));
  const int64_t channels = w.k_inner, taps = int64_t{w.k_extent[0]} * w.k_extent[1] * w.k_extent[2], b_step = call.matrices.b_step * size, depth = depth_of(args);
  TileMaps t;
  t.a.dtype = args.type;
  t.a.rounded = size == 4;
  t.taps = taps;
  t.chunks = divided_up(channels, depth);
  if (args.b_type != args.type || (size == 4 && !args.b_along_k)) return std::nullopt;
  if (channels == 0 || !fills_tiles(taps, channels, depth)) return std::nullopt;
  if (!is_usable(b_step)) return std::nullopt;
  std::fill(std::begin(p.b_from), std::end(p.b_from), INT_MAX);
  for (size_t i = 0; i < args.parts_of_b; ++i) {
    CudaTiles& b = t.b.emplace_back();
    b.dtype = args.type;
    b.rounded = size == 4;
    b.at = offsetof(P, b_tiles) + i * sizeof p.b_tiles[0];
    b.index = args.left() + i;
    p.b_from[i] = static_cast<int>(call.first_column(i));
    const auto c = static_cast<uint64_t>(channels), n = static_cast<uint64_t>(call.call.operands[b.index].dims[args.row_rank]), count = static_cast<uint64_t>(taps);
    if (args.b_along_k) {
      b.dims = {c, count, n};
      b.strides = {c * size, static_cast<uint64_t>(b_step)};
    } else {
      b.dims = {n, c, count};
      b.strides = {static_cast<uint64_t>(b_step), c * static_cast<uint64_t>(b_step)};
    }
  }
  t.a.at = offsetof(P, a_tiles);
  t.a.index = 0;
  t.a.offset = call.matrices.base * size;
  if (!(args.is_matrix() ? describe_rows(call, channels, size, t.a) : describe_pixels(args.is_volume(), w, p, channels, size, t.a))) return std::nullopt;
  return t;
}

template std::optional<TileMaps> tiles_of(const GemmCall&, TilesParameters&);
template std::optional<TileMaps> tiles_of(const GemmCall&, TilesOfPartsParameters&);

}  // namespace ingot::kernels
