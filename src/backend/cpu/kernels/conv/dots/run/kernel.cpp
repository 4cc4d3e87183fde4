// The "conv_dots" kernel: few columns, with vectors along the elements of a tap.
#include "backend/cpu/kernels/conv/run/cost.h"
#include "backend/cpu/kernels/conv/run/windows.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

namespace conv {

namespace {

// The widest vectors that the elements of a tap fill; null: none.
const DirectTiles* find_tiles_of_dots(const Problem& p, const Constants& c) {
  if (c.grouped || p.n > DirectTiles::max_dots) return nullptr;
  const IndexMap::Index& tap = p.map.indices.back();
  if (tap.step != 1 || p.map.leaves(tap) || tap.extent == 0) return nullptr;
  for (const DirectTiles* tiles : {&direct_tiles(false, p.n), &direct_tiles(true, p.n)}) {
    if (tiles->dots[p.n] != nullptr && tap.extent % tiles->lanes == 0) return tiles;
  }
  return nullptr;
}

// Columns of B, each contiguous.
void pack_columns(const Call& call, const Constants& c, const Windows& p) {
  const TensorRef& b = call.operands[1];
  const int64_t row = c.packed ? tile_ops().columns : b.strides[c.batch_rank], column = c.packed ? 1 : b.strides[c.batch_rank + 1];
  const auto* from = reinterpret_cast<const float*>(b.data);
  auto* to = reinterpret_cast<float*>(call.scratch);
  for (int64_t k = 0; k < p.k; ++k, from += row) {
    for (int64_t n = 0; n < p.n; ++n) to[n * p.k + k] = from[n * column];
  }
}

Resolved resolve_dots(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  auto p = std::make_shared<Windows>(checked(call));
  const DirectTiles* tiles = find_tiles_of_dots(*p, c);
  if (tiles == nullptr) return {0, nullptr, never};
  p->lanes = tiles->lanes;
  p->tiles[0] = {tiles->dots[p->n], tiles->outputs_of_dots};
  p->panel_row = 1;
  p->b_row = p->k;
  find_lines(*p, c, {.longest = INT64_MAX});
  p->columns.push_back({0, 0, 0, 1, static_cast<int>(p->n)});
  p->panel_bytes = padded(static_cast<size_t>(p->k * p->n) * 4);
  return resolved(call, std::move(p), cost_of_dots);
}

void run_dots(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Windows*>(call.prepared);
  if (is_empty(p)) return;
  pack_columns(call, c, p);
  run_windows(call, c, p);
}

}  // namespace

}  // namespace conv

std::span<const RunKernel> conv_dots_cpu_kernels() {
  static constexpr RunKernel list[] = {{"conv_dots", conv::load, conv::resolve_dots, conv::run_dots}};
  return list;
}

}  // namespace ingot::kernels
