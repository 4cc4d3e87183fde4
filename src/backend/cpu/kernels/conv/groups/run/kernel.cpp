// The "conv_groups" kernel: groups with fewer columns than a vector. A vector holds several groups, whose columns are adjacent in B and in the result.
#include <algorithm>

#include "backend/cpu/kernels/conv/run/cost.h"
#include "backend/cpu/kernels/conv/run/windows.h"
#include "backend/cpu/run/hardware.h"

namespace ingot::kernels {

namespace conv {

namespace {

// The tiles for groups of these sizes, and their lanes. Null: there are none.
const DirectTiles::Tile* find_tiles(const Problem& p, const Constants& c, int64_t& lanes) {
  if (p.group_axis == SIZE_MAX) return nullptr;
  // Pairs of columns that read one channel each fill the widest vectors.
  constexpr int64_t widest = backend::cpu::hardware::max_lanes;
  const int64_t channels = p.group_step();
  const bool pairs = p.n == 2 && channels == 1 && p.groups % (widest / 2) == 0;
  const DirectTiles& tiles = direct_tiles(true, pairs ? widest : p.n);
  lanes = tiles.lanes;
  if (p.n >= lanes || p.groups * p.n < lanes) return nullptr;
  size_t inside = p.map.indices.size() - 1;
  while (inside > c.batch_rank + c.map.m_rank && p.map.indices[inside].extent == 1) --inside;
  const IndexMap::Index& i = p.map.indices[inside];
  const bool contiguous = channels == 1 || (i.extent == channels && i.step == 1 && !p.map.leaves(i));
  return contiguous ? tiles.narrow(channels, p.n) : nullptr;
}

// The last vector overlaps the previous one if columns do not fill it.
void find_group_columns(Windows& p) {
  const int64_t all = p.groups * p.n;
  int64_t panel = 0;
  for (int64_t n = 0; n < all; n += p.lanes, panel += p.k * p.panel_row) {
    const int64_t first = std::min(n, all - p.lanes);
    p.columns.push_back({first, first / p.n * p.group_step(), panel, 1, static_cast<int>(p.lanes)});
  }
}

Resolved resolve_groups(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  auto p = std::make_shared<Windows>(checked(call));
  const DirectTiles::Tile* tiles = find_tiles(*p, c, p->lanes);
  if (tiles == nullptr) return {0, nullptr, never};
  p->tiles[0] = {tiles, DirectTiles::outputs_of_groups};
  p->panel_row = p->b_row = p->lanes;
  p->joins_lines = false;
  find_lines(*p, c, {.several_groups = true, .longest = INT64_MAX});
  find_group_columns(*p);
  p->panel_bytes = padded(p->columns.size() * static_cast<size_t>(p->k * p->panel_row) * 4);
  return resolved(call, std::move(p), cost_of_groups);
}

}  // namespace

}  // namespace conv

std::span<const RunKernel> conv_groups_cpu_kernels() {
  static constexpr RunKernel list[] = {{"conv_groups", conv::load, conv::resolve_groups, conv::run_panels}};
  return list;
}

}  // namespace ingot::kernels
