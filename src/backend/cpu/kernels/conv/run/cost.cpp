#include "backend/cpu/kernels/conv/run/cost.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "backend/cpu/kernels/conv/run/tuning.h"

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
  const int64_t taps = tap == nullptr ? 1 : tap->extent, apart = tap == nullptr ? 0 : tap->along[axis];
  if (taps > tuning::max_counted) return 1;
  int64_t all = 0;
  for (int64_t t = 0; t < taps; ++t) all += inside_of(map.start.along[axis] + t * apart, step, outputs, map.size[axis]);
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
    if (const auto apart = static_cast<int64_t>(tap.step); apart > 0 && apart < step) {
      for (int64_t t = 0; t < std::min({tap.extent, step, tuning::max_counted}); ++t) remainders.insert(t * apart % step);
    }
  }
  return static_cast<double>(remainders.size()) / static_cast<double>(step);
}

double ceil_div(int64_t n, int64_t by) { return static_cast<double>((n + by - 1) / by); }

// Vectors of products for each element of a window: those in pairs, and the last one if it is alone.
struct Vectors {
  double paired, single;
  Vectors(int64_t n, int64_t lanes) : paired(2 * static_cast<double>(n / (2 * lanes))), single(0) {
    const int64_t rest = n % (2 * lanes);
    (rest > lanes ? paired : single) += rest > lanes ? 2 : rest > 0 ? 1 : 0;
  }
  double products(double of_one = tuning::of_one_vector) const { return paired * tuning::of_two_vectors + single * of_one; }
  double tiles() const { return paired / 2 + single; }
};

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
  const auto groups = static_cast<double>(s.groups), k = static_cast<double>(s.k) * s.inside;
  const double tiles = s.lines() * groups * v.tiles() * std::max(ceil_div(s.line, tuning::outputs_of_tile), static_cast<double>(s.ranges) / 2);
  // A tile reads its panel of B once, a vector for each element of a window. Tiles of few outputs wait for it.
  const int64_t panel_bytes = s.k * std::min(s.n, 2 * cpu.lanes) * 4;
  const double outputs_of_tile = s.outputs * groups * v.tiles() / std::max(1.0, tiles);
  const double read = cpu.machine.lanes * 4 / (panel_bytes > tuning::l1_of_panel ? tuning::rate_of_l2 * cpu.machine.l2 : tuning::rate_of_l1 * cpu.machine.l1);
  const double waits = std::max(1.0, read / (outputs_of_tile * cpu.vectors(tuning::of_two_vectors)));
  const bool half = s.groups > 1 && 2 * s.n <= cpu.lanes;
  const double begin =
      cpu.vectors(tuning::tile + (s.n % cpu.lanes != 0 && !half ? tuning::part_tile / v.tiles() : 0)) + cpu.cycles(k / static_cast<double>(s.tap) * tuning::tap_of_tile);
  const double products = cpu.vectors(s.outputs * groups * k * v.products(half ? tuning::of_half_vector : tuning::of_one_vector));
  return (products * waits + tiles * begin) / static_cast<double>(cpu.threads) + cost_of_order(s, cpu);
}

double cost_of_groups(const ConvSizes& s, const Cpu& cpu) {
  const double vectors = ceil_div(s.n * s.groups, cpu.lanes), k = static_cast<double>(s.k) * s.inside, tiles = s.lines() * vectors * ceil_div(s.line, tuning::outputs_of_tile);
  const double begin = cpu.vectors(tuning::tile) + cpu.cycles(k / static_cast<double>(s.tap) * tuning::tap_of_tile);
  return (cpu.vectors(s.outputs * k * vectors * tuning::of_groups) + tiles * begin) / static_cast<double>(cpu.threads) + cost_of_order(s, cpu);
}

double cost_of_dots(const ConvSizes& s, const Cpu& cpu) {
  const auto n = static_cast<double>(s.n);
  const double products = s.outputs * n * static_cast<double>(s.k) * s.inside / static_cast<double>(cpu.lanes),
               ends = s.outputs * (n * tuning::sum_of_lanes + tuning::output_of_dots);
  return (cpu.vectors(products * tuning::of_dots) + cpu.cycles(ends)) / static_cast<double>(cpu.threads) + cost_of_order(s, cpu);
}

double cost_of_lines(const ConvSizes& s, int64_t length, const Cpu& cpu) {
  const auto k = static_cast<double>(s.k), n = static_cast<double>(s.n), outputs = static_cast<double>(std::max<int64_t>(1, length));
  const double vectors = s.outputs / outputs * ceil_div(length, cpu.lanes) * static_cast<double>(s.groups) * n;
  const double products = k * tuning::of_lines * (1 + 1 / n);  // an element is loaded once for all columns, and a number of B once for several vectors
  // Lines whose windows never leave the image are read in place.
  const tuning::Copy copy = s.step > 2 ? tuning::copy_of_steps : s.step == 2 ? tuning::copy_of_two : s.inside < 1 ? tuning::copy_of_line : tuning::Copy{0, 0};
  const double copied = s.image * s.copied;
  return (cpu.vectors(vectors * (products + tuning::vector_of_line + k / static_cast<double>(s.tap) * tuning::tap_of_line)) +
          cpu.cycles(copied * copy.element + copied / outputs * copy.run)) /
         static_cast<double>(cpu.threads);
}

double cost_of_rows(const ConvSizes& s, const Cpu& cpu) {
  const int64_t panel = 2 * cpu.lanes, rest = s.n % panel;
  const double panels = ceil_div(s.n, panel) - (rest > 0 && rest <= cpu.lanes ? 0.5 : 0);  // half of a last panel can be left out
  const auto k = static_cast<double>(s.k), groups = static_cast<double>(s.groups);
  const double copies = s.mapped ? k / static_cast<double>(s.run) * tuning::copied_tap + k * tuning::copied_element : s.run == 1 && s.k > 1 ? k * tuning::copied_element : 0;
  const double begin = s.n <= cpu.lanes ? tuning::half_tile_of_rows : ceil_div(s.n, panel) * tuning::tile_of_rows;
  const double products = cpu.vectors(k * 2 * panels * tuning::of_two_vectors + begin / tuning::outputs_of_tile);
  return s.outputs * groups * (products + cpu.cycles(copies)) / static_cast<double>(cpu.threads) + cost_of_order(s, cpu);
}

}  // namespace ingot::kernels::conv
