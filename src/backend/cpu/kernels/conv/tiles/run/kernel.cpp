// The "conv_tiles" kernel: register tiles of several outputs of a line and one or two vectors of columns.
#include "backend/cpu/kernels/conv/run/cost.h"
#include "backend/cpu/kernels/conv/run/windows.h"

namespace ingot::kernels {

namespace conv {

namespace {

Resolved resolve_tiles(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  auto p = std::make_shared<Windows>(checked(call));
  const DirectTiles& tiles = direct_tiles(c.grouped, p->n);
  use_tiles(*p, c, tiles);
  find_lines(*p, c, {.threes = &tiles});
  find_columns(*p);
  reserve_panels(*p, c, call.operands[1]);
  find_end(*p, c);
  const int64_t workers = call.workers->count();
  share(*p, workers);
  return {scratch_of(*p, workers), p, cost_of_tiles(p->sizes(c), {tiles.lanes, workers})};
}

void run_tiles(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Windows*>(call.prepared);
  if (is_empty(p)) return;
  pack_panels(call, c, p);
  run_windows(call, c, p);
}

}  // namespace

}  // namespace conv

std::span<const RunKernel> conv_tiles_cpu_kernels() {
  static constexpr RunKernel list[] = {{"conv_tiles", conv::load, conv::resolve_tiles, conv::run_tiles}};
  return list;
}

}  // namespace ingot::kernels
