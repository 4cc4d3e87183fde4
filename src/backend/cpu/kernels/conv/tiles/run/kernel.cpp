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
  return resolved(call, std::move(p), cost_of_tiles);
}

}  // namespace

}  // namespace conv

std::span<const RunKernel> conv_tiles_cpu_kernels() {
  static constexpr RunKernel list[] = {{"conv_tiles", conv::load, conv::resolve_tiles, conv::run_panels}};
  return list;
}

}  // namespace ingot::kernels
