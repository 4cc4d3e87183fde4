// The "direct_conv" kernel: convolutions that read A through a map, without copying windows. Constants are the matmul step's.
//
// A line is the range of the last index of M. Several of its outputs and one or two vectors of columns are in registers at a time. Elements of A are read in
// place, so any order of axes will do. B is in panels: those of "matmul_pack", or, for several groups, packed at the start of each run. The columns of groups
// are then adjacent in the body's domain too: [batch.., M, G N] instead of [batch.., G, .., M, N].
#include <algorithm>
#include <cstring>
#include <memory>

#include "backend/cpu/kernels/direct_conv/run/direct_plan.h"
#include "backend/cpu/kernels/matmul/run/tile.h"

namespace ingot::kernels {

namespace direct_conv {

namespace {

const float zeros[most_zeros] = {};

// Packs the panel of some columns: K rows, padded with zeros.
void pack(const Plan& p, const TensorRef& b, size_t batch_rank, const Columns& columns, float* to) {
  const int64_t row = b.strides[batch_rank], column = b.strides[batch_rank + 1], of_group = p.group_axis == SIZE_MAX ? 0 : b.strides[p.group_axis];
  const auto* from = reinterpret_cast<const float*>(b.data);
  const bool beside = column == 1 && (columns.first % p.n + columns.count <= p.n || of_group == p.n);
  int64_t source[32];
  for (int64_t j = 0; j < columns.count; ++j) source[j] = (columns.first + j) / p.n * of_group + (columns.first + j) % p.n * column;
  // One vector a row is read whole as long as it ends in the group's part of B: columns that are not stored may hold any numbers.
  constexpr int64_t lanes = 8;
  int64_t k = 0;
  if (beside && p.panel_row == lanes) {
    for (const int64_t end = (p.k - 1) * row + columns.count - lanes; k < p.k && k * row <= end; ++k, from += row, to += lanes) std::memcpy(to, from + source[0], lanes * 4);
  }
  for (; k < p.k; ++k, from += row, to += p.panel_row) {
    if (beside) {
      std::memcpy(to, from + source[0], static_cast<size_t>(columns.count) * 4);
    } else {
      for (int64_t j = 0; j < columns.count; ++j) to[j] = from[source[j]];
    }
    std::fill(to + columns.count, to + p.panel_row, 0.0f);
  }
}

// Columns of B, each contiguous.
void pack_columns(const Plan& p, const TensorRef& b, const Constants& c, float* to) {
  const int64_t row = c.packed ? tile_ops().columns : b.strides[c.batch_rank], column = c.packed ? 1 : b.strides[c.batch_rank + 1];
  const auto* from = reinterpret_cast<const float*>(b.data);
  for (int64_t k = 0; k < p.k; ++k, from += row) {
    for (int64_t n = 0; n < p.n; ++n) to[n * p.k + k] = from[n * column];
  }
}

class Worker {
 public:
  // `units`: how many it runs at a time, at most.
  Worker(const Call& call, const Constants& c, const Plan& p, int worker, int64_t units) : call_(call), c_(c), p_(p) {
    std::byte* scratch = call.scratch + p.panel_bytes + static_cast<size_t>(worker) * p.per_worker;
    for (int64_t i = 0; i < units; ++i) {
      std::construct_at(units_ + i);
      units_[i].lists = {p.taps, reinterpret_cast<WindowTap*>(scratch) + static_cast<size_t>(i) * p.taps.memory()};
    }
    panels_ = p.panel_bytes > 0 ? reinterpret_cast<const float*>(call.scratch) : reinterpret_cast<const float*>(call.operands[1].data);
    auto* rows = reinterpret_cast<float*>(scratch + p.tap_bytes);
    sums_ = reinterpret_cast<float*>(scratch + p.tap_bytes + p.bias_bytes);
    block_ = reinterpret_cast<float*>(scratch + p.tap_bytes + p.bias_bytes + p.line_bytes);
    body_ = scratch + p.tap_bytes + p.bias_bytes + p.line_bytes + p.block_bytes;
    auto row = [&](int k, float* padded) -> const float* {  // of whole vectors
      if (!p.direct || k < 0) return nullptr;
      const auto* from = reinterpret_cast<const float*>(operand(k).data);
      if (p.bias_bytes == 0) return from;
      std::memcpy(padded, from, static_cast<size_t>(p.groups * p.n) * 4);
      return padded;
    };
    bias_ = row(p.simple.bias, rows);
    scale_ = row(p.simple.scale, rows + p.bias_bytes / 8);
  }

  // Runs units [first, first + count), at most `units` of the plan, on some of the columns.
  void run(int64_t first, int64_t count, std::span<const Columns> columns) {
    columns_ = columns;
    if (!p_.direct) return by_lines(first);
    for (int64_t i = 0; i < count; ++i) begin(units_[i], first + i);
    outputs({units_, static_cast<size_t>(count)});
  }

  // Runs blocks [first, last) of windows by Winograd's transformation, on some of the columns.
  void winograd(int64_t first, int64_t last, std::span<const Columns> columns) {
    columns_ = columns;
    const WinogradPlan& w = *p_.winograd;
    WinogradBlock block(w, p_.tiles->winograd, block_, zeros);
    for (size_t c = 0; w.keeps_weights && c < columns.size(); ++c) transform(block, c);
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t image = unit / w.blocks, top = w.windows_y * (unit % w.blocks) / w.blocks, bottom = w.windows_y * (unit % w.blocks + 1) / w.blocks;
      Unit& u = units_[0];
      set(u, image * w.planes.outputs * w.rows.outputs);
      const float* a = reinterpret_cast<const float*>(call_.operands[0].data) + static_cast<int64_t>(u.start.offset);
      for (int64_t z = 1 - w.depth; z < w.planes.outputs; ++z) {
        const int64_t plane = z + w.depth - 1;
        block.plane(a + plane * w.planes.step, plane, top, bottom);
        for (size_t c = 0; z >= 0 && c < columns.size(); ++c) {
          if (!w.keeps_weights) transform(block, c);
          results(block, c, image * w.planes.outputs + z, z, top, bottom);
        }
      }
    }
  }

 private:
  std::span<const TensorRef> operands() const { return call_.operands.subspan(2); }
  const TensorRef& operand(int k) const { return operands()[static_cast<size_t>(k)]; }
  // An operand of the body at the first output.
  float* floats(int k) const {
    auto* data = reinterpret_cast<float*>(operand(k).data);
    const std::vector<int64_t>& strides = p_.bound.strides[static_cast<size_t>(k)];
    for (size_t i = 0; i + 1 < strides.size(); ++i) data += at_[i] * strides[i];
    return data;
  }

  // A piece of a line: its outputs [x0, x1). `tile` has `to` and `residual` of the first one.
  struct Unit {
    WindowTaps::Lists lists;
    IndexMap::Position start;
    int64_t x0 = 0, x1 = 0, begin = 0, end = 0;  // begin, end: of the current run
    DirectTile tile;
    VectorEnd program;
    size_t together = 1;  // units from here on whose outputs of the current run are computed across lines
  };
  // Moves `u` and `at_` to this unit.
  void set(Unit& u, int64_t index) {
    const int64_t piece = index % p_.pieces;
    u.start = p_.map.start;
    u.x0 = p_.line.extent * piece / p_.pieces;
    u.x1 = p_.line.extent * (piece + 1) / p_.pieces;
    const size_t batch = c_.batch_rank - (c_.grouped ? 1 : 0);
    int64_t rest = index / p_.pieces, m = u.x0, step = p_.line.extent;
    for (size_t i = p_.lines.size(); i-- > 0; rest /= p_.lines[i].extent) {
      const int64_t at = rest % p_.lines[i].extent;
      u.start.move(p_.lines[i], at, p_.map.axes);
      if (i < batch) {
        at_[i] = at;
      } else {
        m += at * step;
        step *= p_.lines[i].extent;
      }
    }
    at_[batch] = m;
    u.tile.a_step = static_cast<int64_t>(p_.line.step);
    u.tile.inner = p_.inner;
    u.tile.inner_step = p_.inner_step;
    u.tile.b_row = p_.dots != nullptr ? p_.k : p_.panel_row;
    u.tile.zeros = zeros;
  }

  void transform(WinogradBlock& block, size_t column) const {
    const Columns& c = columns_[column];
    block.panel(panels_ + c.b, &c - p_.columns.data(), c.vectors);
  }

  // The lines of a plane that rows [top, bottom) of windows give.
  void results(WinogradBlock& block, size_t column, int64_t plane, int64_t z, int64_t top, int64_t bottom) {
    const WinogradPlan& w = *p_.winograd;
    const Columns& c = columns_[column];
    const auto [by_outputs, most] = tiles_of(c);
    const float* sums = block.sums(z, &c - p_.columns.data(), c.a, c.vectors, by_outputs, most, p_.tiles->lanes);
    const auto finish = p_.tiles->winograd.results[c.vectors - 1];
    Unit& u = units_[0];
    for (int64_t y = 2 * top; y < std::min(2 * bottom, w.rows.outputs); ++y) {
      begin(u, plane * w.rows.outputs + y);
      const DirectTile d = tile_of(u, c);
      const float* const from = sums + (y / 2 - top) * block.sums_row(c.vectors, p_.tiles->lanes);
      auto stored = [&](int64_t x) { return finish(d, from, block.sums_apart(c.vectors, p_.tiles->lanes), y % 2 != 0, x, u.x1); };
      for (int64_t x = 0; (x = stored(x)) < u.x1; x += 2) in_place(u, column, x, std::min(x + 2, u.x1));
    }
  }

  // Outputs [begin, end) of a unit from their own windows: an element that is not finite is in the sums of outputs beside it.
  void in_place(Unit& u, size_t column, int64_t begin, int64_t end) const {
    for (size_t r = 0; r < p_.taps.runs().size(); ++r) {
      const WindowTaps::Run& run = p_.taps.runs()[r];
      if (std::max(run.begin, begin) >= std::min(run.end, end)) continue;
      const std::span<const WindowTap> taps = u.lists.of(r, u.start);
      u.begin = std::max(run.begin, begin), u.end = std::min(run.end, end);
      u.tile.taps = taps.data(), u.tile.count = std::ssize(taps);
      tiles(u, run, column, 0);
    }
  }

  // Prepares a unit for tiles that write the result.
  void begin(Unit& u, int64_t index) {
    set(u, index);
    DirectTile& d = u.tile;
    const size_t batch = c_.batch_rank - (c_.grouped ? 1 : 0);
    const auto to = static_cast<int>(c_.body->stores[0].operand);
    d.to = floats(to);
    d.to_step = p_.bound.strides[static_cast<size_t>(to)][batch];
    d.end.set(p_.simple, p_.simple.slope_operand < 0 ? nullptr : operand(p_.simple.slope_operand).data);
    if (p_.program) u.program = vector_end(*p_.program, p_.bound, operands(), at_, p_.groups * p_.n);
    if (p_.simple.residual < 0) return;
    d.end.residual = floats(p_.simple.residual);
    d.end.residual_step = p_.bound.strides[static_cast<size_t>(p_.simple.residual)][batch];
  }

  // Runs one unit: its sums, then the body.
  void by_lines(int64_t index) {
    Unit& u = units_[0];
    set(u, index);
    const int64_t all = p_.groups * p_.n;
    u.tile.to = sums_;
    u.tile.to_step = all;
    outputs({&u, 1});
    Evaluator evaluator(p_.bound, operands(), body_);
    const auto block = static_cast<int64_t>(p_.bound.block);
    int64_t& m = at_[c_.batch_rank - (c_.grouped ? 1 : 0)];
    for (int64_t x = u.x0; x < u.x1; ++x, ++m) {
      for (int64_t n = 0; n < all; n += block) evaluator.segment(at_, n, std::min(block, all - n), sums_ + (x - u.x0) * all + n);
    }
  }

  void outputs(std::span<Unit> units) {
    for (size_t r = 0; r < p_.taps.runs().size(); ++r) {
      const WindowTaps::Run& run = p_.taps.runs()[r];
      for (size_t i = 0; i < units.size(); ++i) {
        Unit& u = units[i];
        u.begin = std::max(run.begin, u.x0);
        u.end = std::min(run.end, u.x1);
        if (u.begin >= u.end) continue;
        const std::span<const WindowTap> taps = u.lists.of(r, u.start);
        u.tile.taps = taps.data();
        u.tile.count = std::ssize(taps);
      }
      join_lines(units, run);
      for (size_t c = 0; c < columns_.size(); ++c) {
        for (size_t i = 0; i < units.size(); i += units[i].together) {
          units[i].together > 1 ? across({&units[i], units[i].together}, c) : tiles(units[i], run, c, i);
        }
      }
    }
  }

  // A few outputs at the end of a line have taps of their own and fill no tile. Those of lines below one another do, if they have the same taps.
  void join_lines(std::span<Unit> units, const WindowTaps::Run& run) const {
    constexpr int64_t few = 3;
    for (Unit& u : units) u.together = 1;
    if (run.end - run.begin > few || !run.ends.empty() || p_.program || p_.narrow != nullptr || p_.pieces > 1) return;
    auto follows = [&](const Unit& a, const Unit& b) {
      auto same = [](const WindowTap& x, const WindowTap& y) { return x.a == y.a && x.b == y.b && x.length == y.length; };
      return std::equal(a.tile.taps, a.tile.taps + a.tile.count, b.tile.taps, b.tile.taps + b.tile.count, same);
    };
    auto step = [&](size_t i) { return Steps(units[i], units[i + 1]); };
    for (size_t i = 0; i < units.size(); i += units[i].together) {
      size_t& n = units[i].together;
      while (i + n < units.size() && follows(units[i], units[i + n]) && (n == 1 || step(i + n - 1) == step(i))) ++n;
    }
  }

  // From a unit to the next, in A, the result and the residual.
  struct Steps {
    int64_t a, to, residual;
    Steps(const Unit& from, const Unit& next)
        : a(static_cast<int64_t>(next.start.offset - from.start.offset)), to(next.tile.to - from.tile.to), residual(next.tile.end.residual - from.tile.end.residual) {}
    bool operator==(const Steps&) const = default;
  };

  struct Tiles {
    const DirectTiles::Tile* by_outputs;
    int64_t most;
  };
  Tiles tiles_of(const Columns& columns, int64_t outputs = 0) const {
    if (p_.threes != nullptr && columns.vectors == 1 && outputs >= p_.threes->least) return {p_.threes->by_outputs, p_.threes->most};
    if (p_.dots != nullptr) return {p_.dots, p_.tiles->outputs_of_dots};
    if (p_.narrow != nullptr) return {p_.narrow, DirectTiles::outputs_of_groups};
    return columns.vectors == 2 ? Tiles{p_.tiles->two, p_.tiles->outputs_of_two} : Tiles{p_.tiles->one, p_.tiles->outputs_of_one};
  }

  // The unit's tile for some columns, at the line's first output.
  DirectTile tile_of(const Unit& u, const Columns& columns) const {
    DirectTile d = u.tile;
    d.a = reinterpret_cast<const float*>(call_.operands[0].data) + static_cast<int64_t>(u.start.offset) + columns.a;
    d.b = panels_ + columns.b;
    d.to += columns.first;
    d.columns = columns.count;
    d.end.column = columns.first;
    if (scale_ != nullptr) d.end.scale = scale_ + columns.first;
    if (bias_ != nullptr) d.end.bias = bias_ + columns.first;
    if (d.end.residual != nullptr) d.end.residual += columns.first;
    if (p_.program) d.end.program = &u.program;
    return d;
  }

  // Where a tile begins.
  struct Start {
    const float *a, *residual;
    float* to;
    explicit Start(const DirectTile& d) : a(d.a), residual(d.end.residual), to(d.to) {}
    void move(DirectTile& d, int64_t outputs, int64_t rows) const {
      d.a = a + outputs * d.a_step;
      d.to = to + rows * d.to_step;
      if (residual != nullptr) d.end.residual = residual + rows * d.end.residual_step;
    }
  };

  // The same outputs of lines below one another.
  void across(std::span<const Unit> units, size_t column) const {
    const auto [by_outputs, most] = tiles_of(columns_[column]);
    const Steps steps(units[0], units[1]);
    const int64_t lines = std::ssize(units), parts = (lines + most - 1) / most;
    for (int64_t x = units[0].begin; x < units[0].end; ++x) {
      DirectTile d = tile_of(units[0], columns_[column]);
      Start(d).move(d, x, x - units[0].x0);
      const Start first(d);
      d.a_step = steps.a, d.to_step = steps.to, d.end.residual_step = steps.residual;
      for (int64_t i = 0; i < parts; ++i) {
        const int64_t line = lines * i / parts;
        first.move(d, line, line);
        by_outputs[lines * (i + 1) / parts - line](d);
      }
    }
  }

  void tiles(const Unit& u, const WindowTaps::Run& run, size_t column, size_t unit) const {
    const int64_t length = u.end - u.begin;
    const auto [by_outputs, most] = tiles_of(columns_[column], length);
    const int64_t parts = (length + most - 1) / most;
    DirectTile d = tile_of(u, columns_[column]);
    const Start first(d);
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t x = u.begin + length * i / parts, count = u.begin + length * (i + 1) / parts - x;
      first.move(d, x, x - u.x0);
      d.ends = (x == run.begin ? WindowTap::first : WindowTap::none) | (x + count == run.end ? WindowTap::last : WindowTap::none);
      d.end.row = x - u.x0;
      if (p_.column_tasks > 1) {  // the next panel
        const int64_t bytes = p_.k * p_.panel_row * 4, tile = static_cast<int64_t>(unit) * parts + i, of_panel = p_.units * parts;
        ask_for(d, reinterpret_cast<const std::byte*>(d.b) + bytes + bytes * tile / of_panel, bytes / of_panel);
      } else if (p_.large && column == 0 && d.count > 0) {  // what the next line reads first
        ask_for(d, reinterpret_cast<const std::byte*>(d.a + p_.next_line + d.taps[d.count - 1].a), count * std::abs(d.a_step) * 4);
      }
      by_outputs[count](d);
    }
  }

  static void ask_for(DirectTile& d, const std::byte* next, int64_t bytes) {
    constexpr int64_t line = 64, enough = 16;  // products at a tap, so that lines are not asked for all at once
    if (d.inner < enough) return;
    d.next = next;
    d.next_lines = (bytes / line + d.count) / std::max<int64_t>(1, d.count);
  }

  const Call& call_;
  const Constants& c_;
  const Plan& p_;
  const float *panels_, *bias_, *scale_;
  float *sums_, *block_;
  std::byte* body_;
  union {  // only as many are constructed as are used: all of them are a third of a first-level cache
    Unit units_[most_units];
  };
  std::span<const Columns> columns_;
  int64_t at_[max_rank] = {};
};

void run(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Plan*>(call.prepared);
  if (p.lines_plan != nullptr) {
    auto body = [&](int operand) { return operand < 0 ? nullptr : call.operands[2 + static_cast<size_t>(operand)].data; };
    return run_lines(*p.lines_plan, call.operands[0].data, call.operands[1].data, body(c.body->simple.bias), body(static_cast<int>(c.body->stores[0].operand)), call.scratch,
                     *call.workers);
  }
  if (p.line_count == 0 || p.line.extent == 0 || p.columns.empty()) return;
  if (p.dots != nullptr) {
    pack_columns(p, call.operands[1], c, reinterpret_cast<float*>(call.scratch));
  } else if (p.panel_bytes > 0) {
    auto* panels = reinterpret_cast<float*>(call.scratch);
    call.workers->run(static_cast<int64_t>(p.columns.size()), [&](int64_t i, int) {
      const Columns& columns = p.columns[static_cast<size_t>(i)];
      pack(p, call.operands[1], c.batch_rank, columns, panels + columns.b);
    });
  }
  const int64_t panels = std::ssize(p.columns);
  const std::span<const Columns> all(p.columns);
  if (p.winograd) {
    const WinogradPlan& w = *p.winograd;
    const int64_t blocks = p.line_count / (w.planes.outputs * w.rows.outputs) * w.blocks,
                  tasks = w.by_columns ? call.workers->count() : std::min<int64_t>(blocks, 4 * call.workers->count());
    return call.workers->run(tasks, [&](int64_t task, int worker) {
      Worker work(call, c, p, worker, 1);
      const int64_t first = panels * task / tasks, last = panels * (task + 1) / tasks;
      w.by_columns ? work.winograd(0, blocks, all.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)))
                   : work.winograd(blocks * task / tasks, blocks * (task + 1) / tasks, all);
    });
  }
  const int64_t units = p.line_count * p.pieces;
  call.workers->run(p.line_tasks * p.column_tasks, [&](int64_t task, int worker) {
    const int64_t r = task / p.column_tasks, g = task % p.column_tasks, first = panels * g / p.column_tasks;
    const std::span<const Columns> columns(p.columns.data() + first, static_cast<size_t>(panels * (g + 1) / p.column_tasks - first));
    const int64_t begin = units * r / p.line_tasks, end = units * (r + 1) / p.line_tasks;
    Worker work(call, c, p, worker, std::min(p.units, end - begin));
    for (int64_t u = begin; u < end; u += p.units) work.run(u, std::min(p.units, end - u), columns);
  });
}

}  // namespace

}  // namespace direct_conv

std::span<const RunKernel> direct_conv_cpu_kernels() {
  static constexpr RunKernel list[] = {{"direct_conv", direct_conv::load, direct_conv::resolve, direct_conv::run}};
  return list;
}

}  // namespace ingot::kernels
