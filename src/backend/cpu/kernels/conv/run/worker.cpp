#include "backend/cpu/kernels/conv/run/worker.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/run/hardware.h"

namespace ingot::kernels::conv {

extern const float zeros[tuning::max_zeros] = {};

Worker::Worker(const Call& call, const Constants& c, const Windows& p, int worker, int64_t units) : call_(call), c_(c), p_(p) {
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

void Worker::run(int64_t first, int64_t count, std::span<const Columns> columns) {
  columns_ = columns;
  if (!p_.direct) return by_lines(first);
  for (int64_t i = 0; i < count; ++i) begin(units_[i], first + i);
  outputs({units_, static_cast<size_t>(count)});
}

// An operand of the body at the first output.
float* Worker::floats(int k) const {
  auto* data = reinterpret_cast<float*>(operand(k).data);
  const std::vector<int64_t>& strides = p_.bound.strides[static_cast<size_t>(k)];
  for (size_t i = 0; i + 1 < strides.size(); ++i) data += at_[i] * strides[i];
  return data;
}

void Worker::set(Unit& u, int64_t index) {
  const int64_t segment = index % p_.segments;
  u.start = p_.map.start;
  u.x0 = p_.line.extent * segment / p_.segments;
  u.x1 = p_.line.extent * (segment + 1) / p_.segments;
  const size_t batch = c_.domain_batch();
  int64_t rest = index / p_.segments, m = u.x0, step = p_.line.extent;
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
  u.tile.b_row = p_.b_row;
  u.tile.zeros = zeros;
}

void Worker::begin(Unit& u, int64_t index) {
  set(u, index);
  DirectTile& d = u.tile;
  const size_t batch = c_.domain_batch();
  const auto to = static_cast<int>(c_.body->stores[0].operand);
  d.to = floats(to);
  d.to_step = p_.bound.strides[static_cast<size_t>(to)][batch];
  d.end.set(p_.simple, p_.simple.slope_operand < 0 ? nullptr : operand(p_.simple.slope_operand).data);
  if (p_.program) u.program = vector_end(*p_.program, p_.bound, operands(), at_, p_.groups * p_.n);
  if (p_.simple.residual < 0) return;
  d.end.residual = floats(p_.simple.residual);
  d.end.residual_step = p_.bound.strides[static_cast<size_t>(p_.simple.residual)][batch];
}

void Worker::in_place(Unit& u, const Columns& columns, int64_t begin, int64_t end) const {
  for (size_t r = 0; r < p_.taps.runs().size(); ++r) {
    const WindowTaps::Run& run = p_.taps.runs()[r];
    if (std::max(run.begin, begin) >= std::min(run.end, end)) continue;
    const std::span<const WindowTap> taps = u.lists.of(r, u.start);
    u.begin = std::max(run.begin, begin), u.end = std::min(run.end, end);
    u.tile.taps = taps.data(), u.tile.count = std::ssize(taps);
    tiles(u, run, columns, false, 0);
  }
}

// Runs one unit: its sums, then the body.
void Worker::by_lines(int64_t index) {
  Unit& u = units_[0];
  set(u, index);
  const int64_t all = p_.groups * p_.n;
  u.tile.to = sums_;
  u.tile.to_step = all;
  outputs({&u, 1});
  Evaluator evaluator(p_.bound, operands(), body_);
  const auto block = static_cast<int64_t>(p_.bound.block);
  int64_t& m = at_[c_.domain_batch()];
  for (int64_t x = u.x0; x < u.x1; ++x, ++m) {
    for (int64_t n = 0; n < all; n += block) evaluator.segment(at_, n, std::min(block, all - n), sums_ + (x - u.x0) * all + n);
  }
}

void Worker::outputs(std::span<Unit> units) {
  for (size_t r = 0; r < p_.taps.runs().size(); ++r) {
    const WindowTaps::Run& run = p_.taps.runs()[r];
    for (Unit& u : units) {
      u.begin = std::max(run.begin, u.x0);
      u.end = std::min(run.end, u.x1);
      if (u.begin >= u.end) continue;
      const std::span<const WindowTap> taps = u.lists.of(r, u.start);
      u.tile.taps = taps.data();
      u.tile.count = std::ssize(taps);
    }
    join_lines(units, run);
    for (const Columns& columns : columns_) {
      for (size_t i = 0; i < units.size(); i += units[i].together) {
        units[i].together > 1 ? across({&units[i], units[i].together}, columns) : tiles(units[i], run, columns, &columns == columns_.data(), i);
      }
    }
  }
}

namespace {

// From a unit to the next, in A, the result and the residual.
struct Steps {
  int64_t a, to, residual;
  Steps(const Worker::Unit& from, const Worker::Unit& next)
      : a(static_cast<int64_t>(next.start.offset - from.start.offset)), to(next.tile.to - from.tile.to), residual(next.tile.end.residual - from.tile.end.residual) {}
  bool operator==(const Steps&) const = default;
};

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

void ask_for(DirectTile& d, const std::byte* next, int64_t bytes) {
  if (d.inner < tuning::products_of_request) return;
  d.next = next;
  d.next_lines = (bytes / backend::cpu::hardware::cache_line + d.count) / std::max<int64_t>(1, d.count);
}

}  // namespace

// A few outputs at the end of a line have taps of their own and fill no tile. Those of lines below one another do, if they have the same taps.
void Worker::join_lines(std::span<Unit> units, const WindowTaps::Run& run) const {
  for (Unit& u : units) u.together = 1;
  if (run.end - run.begin > tuning::longest_end || !run.ends.empty() || p_.program || !p_.joins_lines || p_.segments > 1) return;
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

const TileList& Worker::tiles_of(const Columns& columns, int64_t outputs) const {
  if (columns.vectors == 2) return p_.tiles[1];
  return p_.threes.by_outputs != nullptr && outputs >= p_.threes.min_outputs ? p_.threes : p_.tiles[0];
}

DirectTile Worker::tile_of(const Unit& u, const Columns& columns) const {
  DirectTile d = u.tile;
  d.a = reinterpret_cast<const float*>(call_.operands[0].data) + static_cast<int64_t>(u.start.offset) + columns.a;
  d.b = panel(columns);
  d.to += columns.first;
  d.columns = columns.count;
  d.end.column = columns.first;
  if (scale_ != nullptr) d.end.scale = scale_ + columns.first;
  if (bias_ != nullptr) d.end.bias = bias_ + columns.first;
  if (d.end.residual != nullptr) d.end.residual += columns.first;
  if (p_.program) d.end.program = &u.program;
  return d;
}

// The same outputs of lines below one another.
void Worker::across(std::span<const Unit> units, const Columns& columns) const {
  const TileList& list = tiles_of(columns);
  const Steps steps(units[0], units[1]);
  const int64_t lines = std::ssize(units), parts = (lines + list.max_outputs - 1) / list.max_outputs;
  for (int64_t x = units[0].begin; x < units[0].end; ++x) {
    DirectTile d = tile_of(units[0], columns);
    Start(d).move(d, x, x - units[0].x0);
    const Start first(d);
    d.a_step = steps.a, d.to_step = steps.to, d.end.residual_step = steps.residual;
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t line = lines * i / parts;
      first.move(d, line, line);
      list.by_outputs[lines * (i + 1) / parts - line](d);
    }
  }
}

void Worker::tiles(const Unit& u, const WindowTaps::Run& run, const Columns& columns, bool first_columns, size_t unit) const {
  const int64_t length = u.end - u.begin;
  const TileList& list = tiles_of(columns, length);
  const int64_t parts = (length + list.max_outputs - 1) / list.max_outputs;
  DirectTile d = tile_of(u, columns);
  const Start first(d);
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t x = u.begin + length * i / parts, count = u.begin + length * (i + 1) / parts - x;
    first.move(d, x, x - u.x0);
    d.ends = (x == run.begin ? WindowTap::first : WindowTap::none) | (x + count == run.end ? WindowTap::last : WindowTap::none);
    d.end.row = x - u.x0;
    if (p_.column_tasks > 1) {  // the next panel
      const int64_t bytes = p_.k * p_.panel_row * 4, tile = static_cast<int64_t>(unit) * parts + i, of_panel = p_.units * parts;
      ask_for(d, reinterpret_cast<const std::byte*>(d.b) + bytes + bytes * tile / of_panel, bytes / of_panel);
    } else if (p_.large && first_columns && d.count > 0) {  // what the next line reads first
      ask_for(d, reinterpret_cast<const std::byte*>(d.a + p_.next_line + d.taps[d.count - 1].a), count * std::abs(d.a_step) * 4);
    }
    list.by_outputs[count](d);
  }
}

}  // namespace ingot::kernels::conv
