#include "backend/cpu/kernels/conv/run/cost.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "backend/cpu/kernels/conv/lines/run/line_tile.h"
#include "backend/cpu/kernels/conv/run/tile.h"
#include "backend/cpu/kernels/conv/run/tuning.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/run/hardware.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels::conv {

namespace {

using Index = IndexMap::Index;

// How many i in [0, extent) have 0 <= start + i * step < size.
int64_t inside_of(int64_t start, int64_t step, int64_t extent, int64_t size) {
  if (step <= 0) return start >= 0 && start < size ? extent : 0;
  const int64_t first = start >= 0 ? 0 : (-start + step - 1) / step, last = start >= size ? 0 : (size - start + step - 1) / step;
  return std::max<int64_t>(0, std::min(last, extent) - std::min(first, extent));
}

// The share of window elements that are inside A along one axis, which at most one index of results and one of K move along; 1 if there are more, or too many taps.
double inside_along(const IndexMap& map, int axis, size_t kept) {
  const Index *result = nullptr, *tap = nullptr;
  for (size_t i = 0; i < map.indices.size(); ++i) {
    const Index& index = map.indices[i];
    if (index.along[axis] == 0 || index.extent <= 1) continue;
    const Index*& of = i < kept ? result : tap;
    if (of != nullptr) return 1;
    of = &index;
  }
  const int64_t outputs = result == nullptr ? 1 : result->extent, step = result == nullptr ? 0 : result->along[axis];
  const int64_t taps = tap == nullptr ? 1 : tap->extent, dilation = tap == nullptr ? 0 : tap->along[axis];
  if (taps > tuning::max_counted) return 1;
  int64_t all = 0;
  for (int64_t t = 0; t < taps; ++t) all += inside_of(map.start.along[axis] + t * dilation, step, outputs, map.size[axis]);
  return static_cast<double>(all) / static_cast<double>(outputs * taps);
}

// Into how many ranges of outputs with the same taps inside A a line falls.
int64_t ranges_of(const IndexMap& map, const Index& line, size_t kept) {
  std::set<int64_t> begins{0};
  for (int axis = 0; axis < map.axes; ++axis) {
    const int64_t step = line.along[axis];
    if (step < 1) continue;
    for (size_t i = kept; i < map.indices.size(); ++i) {
      const Index& tap = map.indices[i];
      if (tap.along[axis] == 0) continue;
      for (int64_t t = 0; t < std::min(tap.extent, tuning::max_counted); ++t) {
        for (const int64_t border : {int64_t{0}, map.size[axis]}) {
          const int64_t away = border - map.start.along[axis] - t * tap.along[axis], begin = away <= 0 ? 0 : (away + step - 1) / step;
          if (begin < line.extent) begins.insert(begin);
        }
      }
    }
  }
  return std::ssize(begins);
}

// The share of the elements along a line that some window reads: with a step, only those at some remainders.
double copied_of(const IndexMap& map, const Index& line, size_t kept) {
  const auto step = static_cast<int64_t>(line.step);
  if (step <= 1) return 1;
  std::set<int64_t> remainders{0};
  for (size_t i = kept; i < map.indices.size(); ++i) {
    const Index& tap = map.indices[i];
    if (const auto tap_step = static_cast<int64_t>(tap.step); tap_step > 0 && tap_step < step) {
      for (int64_t t = 0; t < std::min({tap.extent, step, tuning::max_counted}); ++t) remainders.insert(t * tap_step % step);
    }
  }
  return static_cast<double>(remainders.size()) / static_cast<double>(step);
}

double ceil_div(int64_t n, int64_t by) { return static_cast<double>((n + by - 1) / by); }

// Of the register tiles of vectors of this width: columns along lines, rows of the GEMM.
int64_t line_columns_of(int64_t lanes) { return INGOT_TABLES(line_tiles).of_lanes(lanes).max_columns; }
int64_t rows_of(int64_t lanes) { return INGOT_TABLES(tile_ops).of_lanes(lanes).f32.rows; }

// Columns in pairs of vectors, and a last vector alone.
struct Vectors {
  int64_t pairs, single;
  Vectors(int64_t n, int64_t lanes) : pairs((n + lanes - 1) / (2 * lanes)), single(n - pairs * 2 * lanes > 0 ? 1 : 0) {}
};

// Into how many tiles a line falls: as long as tiles are, and of outputs with equal taps, where those at both ends join their neighbours.
double tiles_of_line(const ConvSizes& s, int64_t outputs) { return std::max(ceil_div(std::max<int64_t>(1, s.line), outputs), static_cast<double>(s.ranges) / 2); }

}  // namespace

ConvSizes sizes_of(const IndexMap& map, size_t batch_rank, size_t m_rank, size_t group, int64_t n) {
  const size_t kept = batch_rank + m_rank;
  ConvSizes s;
  s.n = n;
  s.outputs = 1;
  s.groups = group == SIZE_MAX ? 1 : map.indices[group].extent;
  for (size_t i = 0; i < kept; ++i) s.outputs *= i == group ? 1 : static_cast<double>(map.indices[i].extent);
  s.k = 1;
  for (size_t i = kept; i < map.indices.size(); ++i) s.k *= map.indices[i].extent;
  const auto at = [&](size_t i) { return map.indices.begin() + static_cast<int64_t>(i); };
  const Index line = collapsed({at(batch_rank), at(kept)}, map.axes).back();
  s.line = line.extent;
  s.step = static_cast<int64_t>(line.step);
  s.copied = copied_of(map, line, kept);
  s.ranges = ranges_of(map, line, kept);
  for (int axis = 0; axis < map.axes; ++axis) s.inside *= inside_along(map, axis, kept);
  const Index tap = collapsed({at(kept), map.indices.end()}, map.axes).back();
  s.tap = map.leaves(tap) ? 1 : tap.extent;
  s.run = tap.step == 1 ? s.tap : 1;
  return s;
}

double cost_of_order(const ConvSizes& s, const Cpu& cpu) { return cpu.cycles(s.order_cycles) / static_cast<double>(cpu.threads); }

double cost_of_tiles(const ConvSizes& s, const Cpu& cpu) {
  const Vectors v(s.n, cpu.lanes);
  const DirectTiles& tiles = direct_tiles_of(cpu.lanes);
  const auto line = static_cast<double>(std::max<int64_t>(1, s.line));
  const double k = static_cast<double>(s.k) * s.inside, of_taps = cpu.cycles(k / static_cast<double>(s.tap) * tuning::tap_of_tile);
  const bool half = s.groups > 1 && 2 * s.n <= cpu.lanes;
  // A tile reads its panel of B once, a vector for each element of a window. Tiles of few outputs wait for it.
  const int64_t panel_bytes = s.k * std::min(s.n, 2 * cpu.lanes) * 4;
  const double read = cpu.machine.lanes * 4 / (panel_bytes > tuning::l1_of_panel ? tuning::rate_of_l2 * cpu.machine.l2 : tuning::rate_of_l1 * cpu.machine.l1);
  auto of_line = [&](int vectors, int outputs_of_tile, double of_vector) {
    const double count = tiles_of_line(s, outputs_of_tile), outputs = line / count, waits = std::max(1.0, read / (outputs * cpu.vectors(tuning::of_two_vectors)));
    return count * (cpu.vectors(tuning::tile + tuning::vector_of_tile * outputs * vectors) + of_taps) + cpu.vectors(line * k * vectors * of_vector) * waits;
  };
  double all = 0;
  if (v.pairs > 0) all += static_cast<double>(v.pairs) * of_line(2, tiles.outputs_of_two, tuning::of_two_vectors);
  if (v.single > 0) all += of_line(1, tiles.outputs_of_one, half ? tuning::of_half_vector : tuning::of_one_vector);
  if (s.n % cpu.lanes != 0 && !half) all += tiles_of_line(s, v.pairs > 0 ? tiles.outputs_of_two : tiles.outputs_of_one) * cpu.vectors(tuning::part_tile);
  // Panels that do not stay in the second-level cache are read again from behind it.
  const int64_t panels = s.groups * s.k * s.n * 4;
  const double behind = panels > tuning::l2_of_panels ? static_cast<double>(panels) / (tuning::rate_behind_l2 * cpu.machine.l3) : 0;
  return (s.outputs / line * static_cast<double>(s.groups) * all + behind) / static_cast<double>(cpu.threads) + cost_of_order(s, cpu);
}

double cost_of_groups(const ConvSizes& s, const Cpu& cpu) {
  const double vectors = ceil_div(s.n * s.groups, cpu.lanes), k = static_cast<double>(s.k) * s.inside,
               tiles = s.lines() * vectors * ceil_div(s.line, DirectTiles::outputs_of_groups);
  const double begin = cpu.vectors(tuning::tile_of_groups) + cpu.cycles(k / static_cast<double>(s.tap) * tuning::tap_of_tile);
  return (cpu.vectors(s.outputs * k * vectors * tuning::of_groups) + tiles * begin) / static_cast<double>(cpu.threads) + cost_of_order(s, cpu);
}

double cost_of_dots(const ConvSizes& s, const Cpu& cpu) {
  // A tile of some outputs loads a vector of each and of each column, for the products of all pairs; at the end each sum's lanes are added by halves.
  const auto n = static_cast<double>(s.n), tile = static_cast<double>(std::max(1, direct_tiles_of(cpu.lanes).outputs_of_dots));
  const double products = s.outputs * n * static_cast<double>(s.k) * s.inside / static_cast<double>(cpu.lanes), loads = products * (tile + n) / (tile * n);
  const double ends = s.outputs * (n * tuning::sum_of_lanes * std::log2(static_cast<double>(cpu.lanes)) + tuning::output_of_dots);
  return (cpu.vectors(products * tuning::of_dots + loads * tuning::load_of_dots) + cpu.cycles(ends)) / static_cast<double>(cpu.threads) + cost_of_order(s, cpu);
}

double cost_of_lines(const ConvSizes& s, int64_t length, const Cpu& cpu) {
  const auto k = static_cast<double>(s.k), n = static_cast<double>(s.n), outputs = static_cast<double>(std::max<int64_t>(1, length));
  const double vectors = s.outputs / outputs * ceil_div(length, cpu.lanes) * static_cast<double>(s.groups);
  // An element is loaded once for the columns of a tile. A vector begins at any element: the wider it is, the more often it crosses two lines of the cache.
  const double loads = ceil_div(s.n, line_columns_of(cpu.lanes)) * (1 + static_cast<double>(cpu.lanes - 1) * sizeof(float) / backend::cpu::hardware::cache_line);
  const double products = k * (n * tuning::of_lines + loads * tuning::load_of_lines);
  // Lines whose windows never leave the image are read in place.
  const tuning::Copy copy = s.step > 2 ? tuning::copy_of_steps : s.step == 2 ? tuning::copy_of_two : s.inside < 1 ? tuning::copy_of_line : tuning::Copy{0, 0};
  const double copied = s.image * s.copied;
  return (cpu.vectors(vectors * (products + n * (tuning::vector_of_line + k / static_cast<double>(s.tap) * tuning::tap_of_line))) +
          cpu.cycles(copied * copy.element + copied / outputs * copy.run)) /
         static_cast<double>(cpu.threads);
}

double cost_of_rows(const ConvSizes& s, const Cpu& cpu) {
  const int64_t panel = 2 * cpu.lanes, rest = s.n % panel;
  const double tiles = ceil_div(s.n, panel), panels = tiles - (rest > 0 && rest <= cpu.lanes ? 0.5 : 0);  // half of a last panel can be left out
  const auto k = static_cast<double>(s.k), groups = static_cast<double>(s.groups), rows = static_cast<double>(rows_of(cpu.lanes));
  const double copies = s.mapped ? k / static_cast<double>(s.run) * tuning::copied_tap + k * tuning::copied_element : s.run == 1 && s.k > 1 ? k * tuning::copied_element : 0;
  const double ends = s.n <= cpu.lanes ? tuning::half_tile_of_rows / rows + tuning::vector_of_row : tiles * tuning::tile_of_rows / rows + 2 * panels * tuning::vector_of_row;
  return s.outputs * groups * (cpu.vectors(k * 2 * panels * tuning::of_two_vectors + ends) + cpu.cycles(copies)) / static_cast<double>(cpu.threads) + cost_of_order(s, cpu);
}

}  // namespace ingot::kernels::conv
