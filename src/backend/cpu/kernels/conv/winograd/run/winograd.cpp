#include "backend/cpu/kernels/conv/winograd/run/winograd.h"

#include <algorithm>

#include "backend/cpu/kernels/conv/run/tuning.h"

namespace ingot::kernels {

namespace {

using Index = IndexMap::Index;

constexpr int64_t values = conv::tuning::side_of_window * conv::tuning::side_of_window;  // of a window
// Lines of the first-level cache that hold the 16 values of a window must not all be the same.
int64_t padded_stride(int64_t elements) { return (elements + 15) / 16 * 16 + 16; }

bool moves_alike(const Index& a, const Index& b, int axes) { return a.step == b.step && std::equal(a.along, a.along + axes, b.along); }
bool share_axis(const Index& a, const Index& b, int axes) {
  for (int j = 0; j < axes; ++j) {
    if (a.along[j] != 0 && b.along[j] != 0) return true;
  }
  return false;
}

// The elements that windows of `taps` see along the axis of an index, and which of them are inside.
WinogradPlan::Axis axis_of(const IndexMap& map, const Index& i, int64_t taps) {
  WinogradPlan::Axis a{i.extent, 0, i.extent + taps - 1, static_cast<int64_t>(i.step)};
  for (int j = 0; j < map.axes; ++j) {
    if (const int64_t by = i.along[j]; by > 0) {
      a.begin = std::max(a.begin, (-map.start.along[j] + by - 1) / by);
      a.end = std::min(a.end, (map.size[j] - map.start.along[j] + by - 1) / by);
    }
  }
  return a;
}

// Blocks, and how workers share them.
void choose_blocks(WinogradPlan& p, int64_t lanes, int64_t images, int64_t workers) {
  using namespace conv::tuning;
  const int64_t row_bytes = p.depth * values * p.windows_x * p.row * 4;
  p.keeps_weights = p.panels * p.panel_size * 4 <= kept_weights;
  const int64_t room = p.keeps_weights ? l2_of_winograd - p.panels * p.panel_size * 4 : l2_of_winograd;
  const int64_t rows = std::clamp<int64_t>(std::max(room / row_bytes, (windows_of_block + p.windows_x - 1) / p.windows_x), 1, p.windows_y);
  p.by_columns = workers > 1 && images == 1 && p.planes.outputs == 1 && rows == p.windows_y && p.panels >= workers;
  // Blocks for all workers.
  const int64_t wanted = p.by_columns ? 1 : (workers + images - 1) / images;
  p.blocks = std::max((p.windows_y + rows - 1) / rows, std::min(wanted, p.windows_y));
  if (!p.by_columns && images * p.blocks % workers != 0) p.blocks = std::min(p.windows_y, (images * p.blocks + workers - 1) / workers * workers / images);
  const int64_t windows = (p.windows_y + p.blocks - 1) / p.blocks * p.windows_x;  // of the largest block
  p.image_stride = padded_stride(windows * p.row);
  p.plane_size = values * p.image_stride;
  p.sums_size = values * padded_stride(windows * 2 * lanes);
}

}  // namespace

std::optional<WinogradPlan> winograd_plan(const IndexMap& map, size_t first_k, const conv::Lines& of, const WinogradSizes& q) {
  const int axes = map.axes;
  std::vector<Index> summed;  // without extents of 1
  for (size_t i = first_k; i < map.indices.size(); ++i) {
    if (map.indices[i].extent != 1) summed.push_back(map.indices[i]);
  }
  const size_t inside = summed.size(), before = of.before.size();
  if (inside < 3 || inside > 4 || before < 1) return std::nullopt;
  const Index &channel = summed[inside - 1], &x = summed[inside - 2], &y = summed[inside - 3], &line = of.line, &lines = of.before[before - 1];
  if (x.extent != 3 || y.extent != 3 || !moves_alike(x, line, axes) || !moves_alike(y, lines, axes)) return std::nullopt;
  if (channel.step != 1 || map.leaves(channel) || q.groups * channel.extent < q.lanes || q.groups * channel.extent > conv::tuning::max_channel_blocks * longest_sum ||
      share_axis(line, lines, axes))
    return std::nullopt;
  if (q.groups > 1 && q.group_step != channel.extent) return std::nullopt;
  WinogradPlan p;
  size_t outer = before - 1;  // indices before the planes
  if (inside == 4) {
    const Index& z = summed[0];
    if (before < 2 || z.extent > conv::tuning::max_planes || !moves_alike(z, of.before[before - 2], axes)) return std::nullopt;
    p.depth = z.extent;
    p.planes = axis_of(map, of.before[--outer], p.depth);
    if (share_axis(z, line, axes) || share_axis(z, lines, axes)) return std::nullopt;
  }
  // Where no window moves along an axis, all are inside or none.
  for (int j = 0; j < axes; ++j) {
    const bool moves = line.along[j] != 0 || lines.along[j] != 0 || (inside == 4 && summed[0].along[j] != 0);
    if (!moves && (map.start.along[j] < 0 || map.start.along[j] >= map.size[j])) return std::nullopt;
  }
  int64_t images = 1;
  for (const Index& i : std::span(of.before).first(outer)) {
    if (map.leaves(i)) return std::nullopt;
    images *= i.extent;
  }
  p.rows = axis_of(map, lines, 3);
  p.places = axis_of(map, line, 3);
  p.channels = channel.extent, p.all_channels = q.groups * channel.extent;
  p.images = images, p.columns = q.columns;
  p.panels = q.panels, p.panel_row = q.panel_row;
  p.windows_x = (p.places.outputs + 1) / 2;
  p.windows_y = (p.rows.outputs + 1) / 2;
  if (images * p.windows_x * p.windows_y * p.planes.outputs == 0 || p.panels == 0) return std::nullopt;
  p.row = p.all_channels % conv::tuning::elements_of_page == 0 ? p.all_channels + 16 : p.all_channels;
  if (p.depth * values * p.windows_x * p.row * 4 > conv::tuning::max_row_of_windows) return std::nullopt;
  p.weights_stride = padded_stride(p.depth * p.channels * p.panel_row);
  p.panel_size = values * p.weights_stride;
  choose_blocks(p, q.lanes, images, q.workers);
  return p;
}

double cost_of_winograd(const WinogradPlan& p, const conv::Cpu& cpu) {
  using namespace conv::tuning;
  const auto k = static_cast<double>(p.depth * p.channels), vectors = static_cast<double>(p.all_channels / p.channels * ((p.columns + cpu.lanes - 1) / cpu.lanes));
  const auto windows = static_cast<double>(p.windows_x * p.windows_y);
  // Sums are computed by the register tiles of two vectors of columns, or of a last vector alone, with a window for each output.
  const DirectTiles& tiles = direct_tiles_of(cpu.lanes);
  const auto groups = static_cast<double>(p.all_channels / p.channels);
  const int64_t pairs = (p.columns + cpu.lanes - 1) / (2 * cpu.lanes), singles = p.columns > pairs * 2 * cpu.lanes ? 1 : 0;
  const double begun = groups * (static_cast<double>(pairs) / tiles.outputs_of_two + static_cast<double>(singles) / tiles.outputs_of_one);
  const double plane = windows * (values * (vectors * (k * of_winograd + winograd_sum) + begun * winograd_tile) + vectors * winograd_results) +
                       windows * static_cast<double>(p.all_channels) / static_cast<double>(cpu.lanes) * winograd_image +
                       (p.keeps_weights ? 1 : static_cast<double>(p.blocks)) * vectors * k * winograd_weights;
  return cpu.vectors(plane * static_cast<double>(p.images * p.planes.outputs)) / static_cast<double>(cpu.threads);
}

WinogradBlock::WinogradBlock(const WinogradPlan& p, const WinogradTiles& tiles, float* scratch, const float* zeros) : p_(p), tiles_(tiles), zeros_(zeros) {
  planes_ = scratch;
  weights_ = planes_ + p.depth * p.plane_size;
  sums_ = weights_ + (p.keeps_weights ? p.panels : 1) * p.panel_size;
}

void WinogradBlock::plane(const float* a, int64_t z, int64_t begin, int64_t end) {
  windows_ = (end - begin) * p_.windows_x;
  if (!p_.planes.has(z)) return;
  float* to = planes_ + z % p_.depth * p_.plane_size;
  for (int64_t y = begin; y < end; ++y) {
    for (int64_t x = 0; x < p_.windows_x; ++x, to += p_.row) {
      const float* places[values];
      for (int64_t i = 0; i < values; ++i) {
        const int64_t row = 2 * y + i / 4, place = 2 * x + i % 4;
        places[i] = p_.rows.has(row) && p_.places.has(place) ? a + row * p_.rows.step + place * p_.places.step : zeros_;
      }
      tiles_.image(places, p_.all_channels, to, p_.image_stride);
    }
  }
}

void WinogradBlock::panel(const float* b, int64_t index, int vectors) {
  float* to = weights_ + (p_.keeps_weights ? index : 0) * p_.panel_size;
  const int64_t matrix = p_.channels * p_.panel_row;
  for (int64_t z = 0; z < p_.depth; ++z) tiles_.weights(b + z * 9 * matrix, matrix, p_.panel_row, p_.channels, vectors, to + z * matrix, p_.weights_stride);
}

int64_t WinogradBlock::sums_stride(int vectors, int lanes) const { return padded_stride(windows_ * vectors * lanes); }

const float* WinogradBlock::sums(int64_t z, int64_t index, int64_t channel, int vectors, const DirectTiles::Tile* by_windows, int64_t max_windows, int lanes) {
  const int64_t width = int64_t{vectors} * lanes, matrix = p_.channels * p_.panel_row, parts = (windows_ + max_windows - 1) / max_windows;
  // Sums of sums, as with windows in place, if the channels divide evenly.
  int64_t channel_blocks = (p_.channels + longest_sum - 1) / longest_sum;
  if (p_.channels % channel_blocks != 0) channel_blocks = 1;
  WindowTap taps[conv::tuning::max_planes * conv::tuning::max_channel_blocks];
  DirectTile d;
  d.taps = taps;
  d.inner = p_.channels / channel_blocks;
  for (int64_t t = 0; t < p_.depth; ++t) {
    if (!p_.planes.has(z + t)) continue;
    for (int64_t i = 0; i < channel_blocks; ++i) taps[d.count++] = {(z + t) % p_.depth * p_.plane_size + i * d.inner, t * matrix + i * d.inner * width};
  }
  d.a_step = p_.row;
  d.b_row = d.to_step = width;
  d.columns = static_cast<int>(width);
  for (int64_t v = 0; v < values; ++v) {
    d.b = weights_ + (p_.keeps_weights ? index : 0) * p_.panel_size + v * p_.weights_stride;
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t first = windows_ * i / parts;
      d.a = planes_ + v * p_.image_stride + first * p_.row + channel;
      d.to = sums_ + v * sums_stride(vectors, lanes) + first * width;
      by_windows[windows_ * (i + 1) / parts - first](d);
    }
  }
  return sums_;
}

}  // namespace ingot::kernels
