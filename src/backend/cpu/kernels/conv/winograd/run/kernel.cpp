// The "conv_winograd" kernel: windows of 3 x 3 with stride 1 by Winograd's transformation.
#include <algorithm>

#include "backend/cpu/kernels/conv/run/cost.h"
#include "backend/cpu/kernels/conv/run/windows.h"
#include "backend/cpu/kernels/conv/run/worker.h"
#include "backend/cpu/kernels/conv/winograd/run/winograd.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

namespace conv {

namespace {

struct WinogradStep {
  Windows windows;                     // of outputs that are not finite, and for the epilogue
  const DirectTiles& tiles;
  WinogradPlan plan;
};

Resolved resolve_winograd(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  Windows p(checked(call));
  const DirectTiles& tiles = direct_tiles(c.grouped, p.n);
  use_tiles(p, c, tiles);
  find_columns(p);
  const int64_t workers = call.workers->count();
  const Lines lines = lines_of(p.map, c.batch_rank, c.map.m_rank, p.group_axis);
  const auto plan = winograd_plan(p.map, c.batch_rank + c.map.m_rank, lines, {p.groups, p.group_step(), p.n, std::ssize(p.columns), p.panel_row, tiles.lanes, workers});
  if (!plan) return {0, nullptr, never};
  find_end(p, c);
  if (!p.direct) return {0, nullptr, never};
  find_lines(p, c, {.threes = &tiles});
  reserve_panels(p, c, call.operands[1]);
  p.block_bytes = padded(plan->bytes());
  share(p, workers, false);
  const size_t scratch = scratch_of(p, workers);
  return {scratch, std::make_shared<WinogradStep>(WinogradStep{std::move(p), tiles, *plan}), cost_of_winograd(*plan, {backend::cpu::machine(), tiles.lanes, workers})};
}

// One worker's blocks of windows.
class WinogradWorker {
 public:
  WinogradWorker(const Call& call, const Constants& c, const WinogradStep& s, int worker)
      : s_(s), worker_(call, c, s.windows, worker, 1), block_(s.plan, s.tiles.winograd, worker_.block(), zeros), a_(reinterpret_cast<const float*>(call.operands[0].data)) {}

  // Blocks [first, last), on some of the columns.
  void run(int64_t first, int64_t last, std::span<const Columns> columns) {
    const WinogradPlan& w = s_.plan;
    for (size_t c = 0; w.keeps_weights && c < columns.size(); ++c) transform(columns[c]);
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t image = unit / w.blocks, top = w.windows_y * (unit % w.blocks) / w.blocks, bottom = w.windows_y * (unit % w.blocks + 1) / w.blocks;
      Worker::Unit& u = worker_.unit();
      worker_.set(u, image * w.planes.outputs * w.rows.outputs);
      const float* a = a_ + static_cast<int64_t>(u.start.offset);
      for (int64_t z = 1 - w.depth; z < w.planes.outputs; ++z) {
        const int64_t plane = z + w.depth - 1;
        block_.plane(a + plane * w.planes.step, plane, top, bottom);
        for (size_t c = 0; z >= 0 && c < columns.size(); ++c) {
          if (!w.keeps_weights) transform(columns[c]);
          results(columns[c], image * w.planes.outputs + z, z, top, bottom);
        }
      }
    }
  }

 private:
  int64_t index_of(const Columns& c) const { return &c - s_.windows.columns.data(); }
  void transform(const Columns& c) { block_.panel(worker_.panel(c), index_of(c), c.vectors); }

  // The lines of a plane that rows [top, bottom) of windows give.
  void results(const Columns& c, int64_t plane, int64_t z, int64_t top, int64_t bottom) {
    const WinogradPlan& w = s_.plan;
    const int lanes = s_.tiles.lanes;
    const TileList& list = s_.windows.tiles[c.vectors - 1];
    const float* sums = block_.sums(z, index_of(c), c.a, c.vectors, list.by_outputs, list.max_outputs, lanes);
    const auto finish = s_.tiles.winograd.results[c.vectors - 1];
    Worker::Unit& u = worker_.unit();
    for (int64_t y = 2 * top; y < std::min(2 * bottom, w.rows.outputs); ++y) {
      worker_.begin(u, plane * w.rows.outputs + y);
      const DirectTile d = worker_.tile_of(u, c);
      const float* const from = sums + (y / 2 - top) * block_.sums_row(c.vectors, lanes);
      auto stored = [&](int64_t x) { return finish(d, from, block_.sums_stride(c.vectors, lanes), y % 2 != 0, x, u.x1); };
      // An element that is not finite is in the sums of the outputs next to it: those are computed from their own windows.
      for (int64_t x = 0; (x = stored(x)) < u.x1; x += 2) worker_.in_place(u, c, x, std::min(x + 2, u.x1));
    }
  }

  const WinogradStep& s_;
  Worker worker_;
  WinogradBlock block_;
  const float* a_;
};

void run_winograd(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& s = *static_cast<const WinogradStep*>(call.prepared);
  const Windows& p = s.windows;
  if (is_empty(p)) return;
  pack_panels(call, c, p);
  const WinogradPlan& w = s.plan;
  const int64_t panels = std::ssize(p.columns), blocks = p.line_count / (w.planes.outputs * w.rows.outputs) * w.blocks, workers = call.workers->count();
  const int64_t tasks = w.by_columns ? workers : std::min<int64_t>(blocks, 4 * workers);
  const std::span<const Columns> all(p.columns);
  call.workers->run(tasks, [&](int64_t task, int worker) {
    WinogradWorker work(call, c, s, worker);
    const int64_t first = panels * task / tasks, last = panels * (task + 1) / tasks;
    w.by_columns ? work.run(0, blocks, all.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)))
                 : work.run(blocks * task / tasks, blocks * (task + 1) / tasks, all);
  });
}

}  // namespace

}  // namespace conv

std::span<const RunKernel> conv_winograd_cpu_kernels() {
  static constexpr RunKernel list[] = {{"conv_winograd", conv::load, conv::resolve_winograd, conv::run_winograd}};
  return list;
}

}  // namespace ingot::kernels
