#include "backend/cpu/kernels/conv/run/windows.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/conv/run/tuning.h"
#include "backend/cpu/kernels/conv/run/worker.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

const DirectTiles& direct_tiles(bool grouped, int64_t columns) {
  using enum backend::cpu::Isa;
  const backend::cpu::Isa isa = backend::cpu::isa();
  if (isa == portable) return direct_tiles_portable;
  const auto tiles = INGOT_TABLES(direct_tiles);
  return isa == avx2 || (grouped && columns <= tiles.avx2.lanes) ? tiles.avx2 : tiles.avx512;
}

const DirectTiles& direct_tiles_of(int64_t lanes) { return INGOT_TABLES(direct_tiles).of_lanes(lanes); }

namespace conv {

using ir::DType;

namespace {

// Tiles for taps that come in threes, if their sums are not longer than others.
void find_threes(Windows& p, const DirectTiles& tiles) {
  constexpr int64_t taps = DirectTiles::taps_of_threes;
  if (p.inner_step != 1 || p.inner % 2 != 0 || taps * p.inner > 2 * longest_sum) return;
  for (int64_t stride : {1, 2}) {
    const auto step = static_cast<int64_t>(p.line.step);
    const DirectTiles::Threes& threes = tiles.threes[stride - 1];
    if (threes.by_outputs != nullptr && step % stride == 0 && p.taps.in_threes(step / stride)) p.threes = {threes.by_outputs, threes.max_outputs, threes.min_outputs};
  }
}

}  // namespace

ConvSizes Windows::sizes(const Constants& c) const {
  ConvSizes s = sizes_of(map, c.batch_rank, c.map.m_rank, group_axis, n);
  const std::vector<int64_t>& to = bound.strides[c.body->stores[0].operand];
  if (to.back() != 1 && groups * n > 1) s.order_cycles = s.outputs * static_cast<double>(groups * n) * tuning::scattered_result;
  return s;
}

void use_tiles(Windows& p, const Constants& c, const DirectTiles& tiles) {
  p.lanes = tiles.lanes;
  p.tiles[0] = {tiles.one, tiles.outputs_of_one};
  p.tiles[1] = {tiles.two, tiles.outputs_of_two};
  p.panel_row = c.packed ? tile_ops().columns : p.n <= p.lanes ? p.lanes : 2 * p.lanes;
  p.b_row = p.panel_row;
  if (c.packed && tile_ops().columns != 2 * p.lanes) refuse("the packed B has panels of another width");
}

void find_lines(Windows& p, const Constants& c, const TapRules& rules) {
  const std::vector<IndexMap::Index>& all = p.map.indices;
  const size_t first_k = c.batch_rank + c.map.m_rank;
  Lines lines = lines_of(p.map, c.batch_rank, c.map.m_rank, p.group_axis);
  p.lines = std::move(lines.before);
  p.line = lines.line;
  for (const IndexMap::Index& i : p.lines) p.line_count *= i.extent;
  if (!p.lines.empty()) p.next_line = static_cast<int64_t>(p.lines.back().step);
  std::vector<IndexMap::Index> k(all.begin() + static_cast<int64_t>(first_k), all.end());
  // Elements that are inside or outside together: all of an innermost index, or those of one group if a vector holds several groups.
  auto leaves = [&](const IndexMap::Index& i) { return p.map.leaves(i); };
  if (p.group_axis != SIZE_MAX && leaves(all[p.group_axis])) refuse("groups may be outside");
  while (k.size() > 1 && k.back().extent == 1) k.pop_back();
  if (rules.several_groups) {
    p.inner = p.group_step();
  } else {
    k = collapsed(k, p.map.axes);
    if (!leaves(k.back())) {
      p.inner = k.back().extent;
      p.inner_step = static_cast<int64_t>(k.back().step);
    }
  }
  if (!leaves(k.back()) && (!rules.several_groups || p.inner > 1)) {
    IndexMap::Index& inside = k.back();
    // A tap with more channels than the longest sum is split into several of equal length, if it divides evenly.
    const int64_t parts = (p.inner - 1) / rules.longest + 1, length = p.inner / parts;
    if (parts > 1 && p.inner % parts == 0) {
      p.inner = length;
      inside.extent = parts;
      inside.step *= length;
    } else {
      k.pop_back();
    }
  }
  const bool single = !rules.several_groups && p.inner == 1, near = !k.empty() && k.back().step >= 1 && k.back().step <= tuning::longest_step;
  if (single && near) p.inner_step = static_cast<int64_t>(k.back().step);
  std::vector<int64_t> b_steps(k.size());
  int64_t row = p.inner * p.panel_row;
  for (size_t i = k.size(); i-- > 0; row *= k[i].extent) b_steps[i] = row;
  const bool joins_ends = !rules.several_groups && (single || p.inner_step == 1) && p.inner <= tuning::max_zeros;
  p.taps = WindowTaps("a convolution", p.map, p.lines, p.line, k, b_steps, tuning::max_places, joins_ends);
  if (!p.taps.fits) refuse("an axis is left along two indices");
  if (rules.threes != nullptr) find_threes(p, *rules.threes);
  // Taps of few elements, as of a first layer's three channels, cost more between them than in them.
  if (p.threes.by_outputs == nullptr && !rules.several_groups && p.inner <= tuning::short_tap && (near || !single)) {
    p.taps.merge(p.inner * p.inner_step, p.inner * p.panel_row, tuning::merged_tap / p.inner);
  }
}

void find_columns(Windows& p) {
  int64_t panel = 0;
  for (int64_t g = 0; g < p.groups; ++g) {
    for (int64_t n = 0; n < p.n; n += p.panel_row) {
      const int64_t count = std::min(p.panel_row, p.n - n);
      p.columns.push_back({g * p.n + n, g * p.group_step(), panel, count > p.lanes ? 2 : 1, static_cast<int>(count)});
      panel += p.k * p.panel_row;
    }
  }
}

void find_end(Windows& p, const Constants& c) {
  SimpleEpilogue& s = p.simple = c.body->simple;
  const auto& strides = p.bound.strides;
  auto contiguous = [&](size_t operand) { return strides[operand].back() == 1 || p.groups * p.n == 1; };
  auto is_row = [&](int operand) {  // the same for all outputs
    const std::vector<int64_t>& of = strides[static_cast<size_t>(operand)];
    return contiguous(static_cast<size_t>(operand)) && std::all_of(of.begin(), of.end() - 1, [](int64_t x) { return x == 0; });
  };
  if (!contiguous(c.body->stores[0].operand) || c.body->memory[c.body->stores[0].operand] != DType::f32) return;
  auto simple = [&] {
    if (!s.valid || s.type != DType::f32) return false;
    s.order(is_row);
    if (s.activates_last) return false;
    if ((s.bias >= 0 && !is_row(s.bias)) || (s.scale >= 0 && !is_row(s.scale))) return false;
    if (s.slope_operand >= 0 && !p.bound.is_one(s.slope_operand)) return false;
    for (int operand : {s.scale, s.bias, s.residual}) {
      if (operand >= 0 && c.body->memory[static_cast<size_t>(operand)] != DType::f32) return false;
    }
    return s.residual < 0 || contiguous(static_cast<size_t>(s.residual));
  };
  p.direct = simple();
  if (p.direct) return;
  p.program = vector_program(*c.body, p.bound);
  p.direct = p.program.has_value();
  s = {};
}

namespace {

// How many units to process together: their part of A fits half of a second-level cache, next to a panel of B. Groups read channels of their own: if the panels of all are small and A
// is large, lines follow one another, so that A is read in the order of its memory.
int64_t units_together(const Windows& p) {
  if (!p.direct || p.columns.size() < 2) return 1;
  if (p.column_tasks > 1) return p.line_count * p.segments;
  if (p.groups > 1 && p.large && p.k * p.panel_row * std::ssize(p.columns) * 4 <= tuning::half_l2) return 1;
  const int64_t bytes = p.line.extent / p.segments * std::abs(static_cast<int64_t>(p.line.step)) * 4, taps = static_cast<int64_t>(p.taps.memory());
  return std::clamp<int64_t>(std::min(tuning::half_l2 / std::max<int64_t>(1, bytes), tuning::max_list_taps / std::max<int64_t>(1, taps)), 1, tuning::max_units);
}

// Tasks are ranges of lines. Tasks are groups of panels, over all lines, if workers cannot have the same number of lines. If all panels of B are more than stays in a second-level cache
// together with A, each range of lines would read them again from farther away: then a worker's lines are one range, and tasks are groups of panels over it. If even so reading B
// takes long compared with the products, they go over all lines.
void choose_tasks(Windows& p, int64_t wanted, int64_t workers) {
  const Machine& machine = backend::cpu::machine();
  const int64_t units = p.line_count * p.segments, panels = std::ssize(p.columns), all = p.k * p.panel_row * panels * 4;
  const bool together = units <= tuning::max_units && units * static_cast<int64_t>(p.taps.memory()) <= tuning::max_list_taps;
  const bool divides = p.direct && p.joins_lines && wanted > 1 && together && panels >= wanted, even = units % workers == 0;
  const double nanoseconds = p.products() / machine.f32 / static_cast<double>(workers);
  p.line_tasks = std::min(units, wanted);
  p.column_tasks = 1;
  if (!divides || (even && all <= tuning::l2_of_panels)) return;
  p.line_tasks = even && static_cast<double>(all) / (tuning::rate_of_l3 * machine.l3) < tuning::share_of_reading * nanoseconds ? workers : 1;
  p.column_tasks = wanted / p.line_tasks;
}

}  // namespace

void share(Windows& p, int64_t workers, bool shares_lines) {
  const Machine& machine = backend::cpu::machine();
  const int64_t wanted = p.products() < tuning::least_wakes * machine.wake * machine.f32 ? 1 : workers * 4;
  p.large = p.line_count * p.line.extent * std::abs(static_cast<int64_t>(p.line.step)) * 4 > tuning::l2_of_image;
  if (shares_lines) {
    if (p.line_count > 0 && p.line_count < wanted) p.segments = std::clamp<int64_t>(wanted / p.line_count, 1, std::max<int64_t>(1, p.line.extent / tuning::min_segment));
    choose_tasks(p, wanted, workers);
    p.units = units_together(p);
  }
  if (p.units == 1) p.taps.keep_sets();
  p.tap_bytes = padded(static_cast<size_t>(p.units) * p.taps.memory() * sizeof(WindowTap));
  p.bias_bytes = p.n % p.lanes == 0 || !p.joins_lines ? 0 : 2 * padded(static_cast<size_t>(p.groups * p.n + 2 * p.lanes) * 4);
  p.line_bytes = p.direct ? 0 : padded(static_cast<size_t>((p.line.extent / p.segments + 1) * p.groups * p.n) * 4);
  p.per_worker = p.tap_bytes + p.bias_bytes + p.line_bytes + p.block_bytes + padded(p.bound.scratch);
}

Resolved resolved(const Call& call, std::shared_ptr<Windows> p, double (*cost)(const ConvSizes&, const Cpu&)) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const int64_t workers = call.workers->count();
  find_end(*p, c);
  share(*p, workers);
  const size_t scratch = scratch_of(*p, workers);
  const double nanoseconds = cost(p->sizes(c), {backend::cpu::machine(), p->lanes, workers});
  return {scratch, std::move(p), nanoseconds};
}

void reserve_panels(Windows& p, const Constants& c, const TensorRef& b) {
  // True if the panels are B's own memory.
  auto are_there = [&] {
    const bool one_each = p.n == p.panel_row && b.strides[c.batch_rank] == p.n && b.strides[c.batch_rank + 1] == 1;
    return one_each && (p.group_axis == SIZE_MAX || p.groups == 1 || b.strides[p.group_axis] == p.k * p.n);
  };
  if (!c.packed && !are_there()) p.panel_bytes = padded(p.columns.size() * static_cast<size_t>(p.k * p.panel_row) * 4);
}

namespace {

// Packs the panel of some columns: K rows, padded with zeros.
void pack(const Windows& p, const TensorRef& b, size_t batch_rank, const Columns& columns, float* to) {
  const int64_t row = b.strides[batch_rank], column = b.strides[batch_rank + 1], of_group = p.group_axis == SIZE_MAX ? 0 : b.strides[p.group_axis];
  const auto* from = reinterpret_cast<const float*>(b.data);
  const bool contiguous = column == 1 && (columns.first % p.n + columns.count <= p.n || of_group == p.n);
  int64_t source[32];
  for (int64_t j = 0; j < columns.count; ++j) source[j] = (columns.first + j) / p.n * of_group + (columns.first + j) % p.n * column;
  // One vector a row is read whole as long as it ends in the group's part of B: columns that are not stored may hold any numbers.
  constexpr int64_t lanes = tuning::columns_of_narrow_panel;
  int64_t k = 0;
  if (contiguous && p.panel_row == lanes) {
    for (const int64_t end = (p.k - 1) * row + columns.count - lanes; k < p.k && k * row <= end; ++k, from += row, to += lanes) std::memcpy(to, from + source[0], lanes * 4);
  }
  for (; k < p.k; ++k, from += row, to += p.panel_row) {
    if (contiguous) {
      std::memcpy(to, from + source[0], static_cast<size_t>(columns.count) * 4);
    } else {
      for (int64_t j = 0; j < columns.count; ++j) to[j] = from[source[j]];
    }
    std::fill(to + columns.count, to + p.panel_row, 0.0f);
  }
}

}  // namespace

void pack_panels(const Call& call, const Constants& c, const Windows& p) {
  if (p.panel_bytes == 0) return;
  auto* panels = reinterpret_cast<float*>(call.scratch);
  call.workers->run(static_cast<int64_t>(p.columns.size()), [&](int64_t i, int) {
    const Columns& columns = p.columns[static_cast<size_t>(i)];
    pack(p, call.operands[1], c.batch_rank, columns, panels + columns.b);
  });
}

void run_windows(const Call& call, const Constants& c, const Windows& p) {
  const int64_t panels = std::ssize(p.columns), units = p.line_count * p.segments;
  call.workers->run(p.line_tasks * p.column_tasks, [&](int64_t task, int worker) {
    const int64_t r = task / p.column_tasks, g = task % p.column_tasks, first = panels * g / p.column_tasks;
    const std::span<const Columns> columns(p.columns.data() + first, static_cast<size_t>(panels * (g + 1) / p.column_tasks - first));
    const int64_t begin = units * r / p.line_tasks, end = units * (r + 1) / p.line_tasks;
    Worker work(call, c, p, worker, std::min(p.units, end - begin));
    for (int64_t u = begin; u < end; u += p.units) work.run(u, std::min(p.units, end - u), columns);
  });
}

void run_panels(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Windows*>(call.prepared);
  if (is_empty(p)) return;
  pack_panels(call, c, p);
  run_windows(call, c, p);
}

}  // namespace conv

}  // namespace ingot::kernels
