// Chooses how a convolution runs: along lines or columns, by which tiles, in which pieces, and its epilogue.
#include "backend/cpu/kernels/direct_conv/run/direct_plan.h"

#include <algorithm>
#include <array>

#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/run/isa.h"
#include "base/error.h"

namespace ingot::kernels {

const DirectTiles& direct_tiles(bool grouped, int64_t columns) {
  using enum backend::cpu::Isa;
  const backend::cpu::Isa isa = backend::cpu::isa();
  if (isa == portable) return direct_tiles_portable;
  return isa == avx2 || (grouped && columns <= direct_tiles_avx2.lanes) ? direct_tiles_avx2 : direct_tiles_avx512;
}

namespace direct_conv {

using ir::DType;

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  MatmulArgs args = parse_matmul(bytes);
  if (!args.map) fail(Code::format, "a direct_conv step has no map");
  auto c = std::make_shared<Constants>(Constants{args.packed, args.batch_rank, std::move(*args.map), nullptr, false});
  if (operands < 3 || sizes < 3 + c->map_sizes()) fail(Code::format, "a direct_conv step has {} operands and {} sizes", operands, sizes);
  c->body = load_program(args.body, operands - 2, sizes - 3 - c->map_sizes());
  const Program& p = *c->body;
  const auto rank = static_cast<size_t>(p.domain_rank);
  c->grouped = rank == c->batch_rank + 1;
  const bool fits = (c->grouped || rank == c->batch_rank + 2) && p.row_rank == 1 && !p.has_reductions && (!p.has_accumulator || p.accumulator == Class::f32);
  if (!fits || (c->grouped && c->packed)) fail(Code::format, "a direct_conv step's body has another domain");
  return c;
}

namespace {

constexpr int64_t most_taps = 4096, most_places = 1 << 16;

[[noreturn]] void refuse(const char* what) { fail(Code::format, "direct_conv: {}", what); }

void find_groups(Plan& p, const Constants& c, const TensorRef& b) {
  if (c.packed) {
    if (b.dtype != DType::f32 || b.rank != 1 || b.strides[0] != 1 || b.dims[0] < storage_bytes(panels_of(DType::f32), std::array{p.k, p.n}) / 4)
      refuse("the packed operand does not fit");
    return;
  }
  if (b.dtype != DType::f32 || static_cast<size_t>(b.rank) != c.batch_rank + 2 || b.dims[c.batch_rank] != p.k || b.dims[c.batch_rank + 1] != p.n)
    refuse("B does not have the sizes K and N");
  for (size_t d = 0; d < c.batch_rank; ++d) {
    if (b.dims[d] != p.map.indices[d].extent) refuse("A and B have different batch sizes");
    if (b.strides[d] == 0 || b.dims[d] == 1) continue;
    if (!c.grouped || p.group_axis != SIZE_MAX) refuse("B differs along several axes");
    p.group_axis = d;
    p.groups = b.dims[d];
  }
  if (c.grouped && p.group_axis == SIZE_MAX) refuse("there are no groups");
}

void check_extents(const Plan& p, const Constants& c) {
  const std::vector<IndexMap::Index>& all = p.map.indices;
  const size_t first_m = c.batch_rank, first_k = first_m + c.map.m_rank;
  int64_t lengths[2] = {1, 1};
  for (size_t i = first_m; i < all.size(); ++i) {
    int64_t& length = lengths[i >= first_k];
    if (all[i].extent > 0 && length > (int64_t{1} << 40) / all[i].extent) refuse("the map's extents are impossible");
    length *= all[i].extent;
  }
  if (lengths[0] != p.m || lengths[1] != p.k) refuse("the map's extents are not those of the product");
}

// Tiles with vectors along the elements of a tap, if there are few columns.
const DirectTiles::Tile* find_dots(const Plan& p, const Constants& c) {
  constexpr int64_t few = 64, short_sum = 128;  // outputs for which B would be put in order; products whose lanes cost more to add up than they save
  if (c.grouped || p.n > DirectTiles::most_dots || p.m < few || p.k < short_sum) return nullptr;
  const IndexMap::Index& inner = p.map.indices.back();
  return inner.step == 1 && !p.map.leaves(inner) && inner.extent % p.tiles->lanes == 0 && inner.extent > 0 ? p.tiles->dots[p.n] : nullptr;
}

// Tiles for taps that come in threes, if their sums are not longer than others and each three lies as far apart in B.
void find_threes(Plan& p) {
  constexpr int64_t taps = DirectTiles::taps_of_threes;
  if (p.narrow != nullptr || p.dots != nullptr || p.inner_step != 1 || p.inner % 2 != 0 || taps * p.inner > 2 * longest_sum) return;
  for (int64_t stride : {1, 2}) {
    const auto step = static_cast<int64_t>(p.line.step);
    const DirectTiles::Threes& threes = p.tiles->threes[stride - 1];
    if (threes.by_outputs != nullptr && step % stride == 0 && p.taps.in_threes(step / stride)) p.threes = &threes;
  }
}

// Looks for tiles with several groups in a vector. Without one, each group has vectors of its own.
bool find_narrow(Plan& p, const IndexMap::Index& inside) {
  if (p.group_axis == SIZE_MAX || p.n >= p.tiles->lanes || p.groups * p.n < p.tiles->lanes) return false;
  const auto channels = static_cast<int64_t>(p.map.indices[p.group_axis].step);
  const bool beside = channels == 1 || (inside.extent == channels && inside.step == 1 && !p.map.leaves(inside));
  p.narrow = beside ? p.tiles->narrow(channels, p.n) : nullptr;
  return p.narrow != nullptr;
}

// Sorts the map's indices into those of lines, the line's own, and those of the window.
void find_indices(Plan& p, const Constants& c) {
  const std::vector<IndexMap::Index>& all = p.map.indices;
  const size_t first_m = c.batch_rank, first_k = first_m + c.map.m_rank;
  for (size_t i = 0; i < first_m; ++i) {
    if (i != p.group_axis) p.lines.push_back(all[i]);
  }
  std::vector<IndexMap::Index> m = collapsed({all.begin() + static_cast<int64_t>(first_m), all.begin() + static_cast<int64_t>(first_k)}, p.map.axes);
  p.line = m.back();
  p.lines.insert(p.lines.end(), m.begin(), m.end() - 1);
  std::vector<IndexMap::Index> k(all.begin() + static_cast<int64_t>(first_k), all.end());
  // Elements that are inside or outside together: all of an innermost index, or those of one group if a vector holds several groups.
  auto leaves = [&](const IndexMap::Index& i) { return p.map.leaves(i); };
  if (p.group_axis != SIZE_MAX && leaves(all[p.group_axis])) refuse("groups may lie outside");
  while (k.size() > 1 && k.back().extent == 1) k.pop_back();
  const bool narrow = find_narrow(p, k.back());
  if (!narrow) k = collapsed(k, p.map.axes);
  if (narrow) {
    p.inner = static_cast<int64_t>(all[p.group_axis].step);
  } else if (!leaves(k.back())) {
    p.inner = k.back().extent;
    p.inner_step = static_cast<int64_t>(k.back().step);
  }
  if (!leaves(k.back()) && (!narrow || p.inner > 1)) {
    IndexMap::Index& inside = k.back();
    // A tap with more channels than the longest sum is split into several of equal length, if it divides evenly.
    const int64_t pieces = narrow || p.dots != nullptr ? 1 : (p.inner + longest_sum - 1) / longest_sum, length = p.inner / pieces;
    if (pieces > 1 && p.inner % pieces == 0) {
      p.inner = length;
      inside.extent = pieces;
      inside.step *= length;
    } else {
      k.pop_back();
    }
  }
  constexpr int64_t few = 16, enough = 64, longest_step = 16;
  const bool single = !narrow && p.inner == 1, near = !k.empty() && k.back().step >= 1 && k.back().step <= longest_step;
  if (single && near) p.inner_step = static_cast<int64_t>(k.back().step);
  std::vector<int64_t> b_steps(k.size());
  int64_t row = p.inner * p.panel_row;
  for (size_t i = k.size(); i-- > 0; row *= k[i].extent) b_steps[i] = row;
  const bool joins_ends = !narrow && (single || p.inner_step == 1) && p.inner <= most_zeros;
  p.taps = WindowTaps("direct_conv", p.map, p.lines, p.line, k, b_steps, most_places, joins_ends);
  if (!p.taps.fits) refuse("an axis is left along two indices");
  find_threes(p);
  // Taps of few elements, as of a first layer's three channels, cost more between them than in them.
  if (p.threes == nullptr && !narrow && p.inner <= few && (near || !single)) p.taps.merge(p.inner * p.inner_step, p.inner * p.panel_row, enough / p.inner);
}

void find_columns(Plan& p) {
  const int64_t lanes = p.tiles->lanes, all = p.groups * p.n;
  int64_t panel = 0;
  auto add = [&](int64_t first, int64_t count, int64_t group, int vectors) {
    p.columns.push_back({first, group * (p.group_axis == SIZE_MAX ? 0 : static_cast<int64_t>(p.map.indices[p.group_axis].step)), panel, vectors, static_cast<int>(count)});
    panel += p.k * p.panel_row;
  };
  if (p.dots != nullptr) {
    p.columns.push_back({0, 0, 0, 1, static_cast<int>(p.n)});
  } else if (p.narrow != nullptr) {
    for (int64_t n = 0; n < all; n += lanes) {  // the last vector overlaps the previous one if columns do not fill it
      const int64_t first = std::min(n, all - lanes);
      add(first, lanes, first / p.n, 1);
    }
  } else {
    for (int64_t g = 0; g < p.groups; ++g) {
      for (int64_t n = 0; n < p.n; n += p.panel_row) {
        const int64_t count = std::min(p.panel_row, p.n - n);
        add(g * p.n + n, count, g, count > lanes ? 2 : 1);
      }
    }
  }
}

// The body's operands without the groups' axis.
void join_groups(const Plan& p, const Constants& c, std::span<const TensorRef> operands, std::vector<Joined>& joined, std::vector<TensorRef>& to) {
  for (const TensorRef& t : operands) {
    if (static_cast<size_t>(t.rank) != c.batch_rank + 2) refuse("an operand of the body has another rank");
    Joined j{};
    int rank = 0;
    for (int d = 0; d < t.rank; ++d) {
      if (static_cast<size_t>(d) == p.group_axis) continue;
      j.dims[rank] = t.dims[d];
      j.strides[rank++] = t.strides[d];
    }
    const int64_t of_groups = t.dims[p.group_axis], last = t.dims[t.rank - 1];
    const bool repeats = of_groups == 1 && last == 1, beside = of_groups == p.groups && last == p.n && (p.n == 1 || t.strides[p.group_axis] == t.strides[t.rank - 1] * p.n);
    if (!repeats && !beside) refuse("columns of groups are not neighbours");
    if (beside && p.n == 1) j.strides[rank - 1] = t.strides[p.group_axis];
    j.dims[rank - 1] = repeats ? 1 : p.groups * p.n;
    joined.push_back(j);
  }
  for (size_t i = 0; i < operands.size(); ++i) to.push_back({operands[i].data, operands[i].dtype, operands[i].rank - 1, joined[i].dims, joined[i].strides});
}

// Chooses an epilogue that runs in the tiles, if there is one.
void find_end(Plan& p, const Constants& c) {
  SimpleEpilogue& s = p.simple = c.body->simple;
  const auto& strides = p.bound.strides;
  auto beside = [&](size_t operand) { return strides[operand].back() == 1 || p.groups * p.n == 1; };
  auto is_row = [&](int operand) {  // the same for all outputs
    const std::vector<int64_t>& of = strides[static_cast<size_t>(operand)];
    return beside(static_cast<size_t>(operand)) && std::all_of(of.begin(), of.end() - 1, [](int64_t x) { return x == 0; });
  };
  if (!beside(c.body->stores[0].operand) || c.body->memory[c.body->stores[0].operand] != DType::f32) return;
  auto simple = [&] {
    if (!s.valid || s.type != DType::f32) return false;
    s.order(is_row);
    if (s.activates_last) return false;
    if ((s.bias >= 0 && !is_row(s.bias)) || (s.scale >= 0 && !is_row(s.scale))) return false;
    if (s.slope_operand >= 0 && !p.bound.is_one(s.slope_operand)) return false;
    for (int operand : {s.scale, s.bias, s.residual}) {
      if (operand >= 0 && c.body->memory[static_cast<size_t>(operand)] != DType::f32) return false;
    }
    return s.residual < 0 || beside(static_cast<size_t>(s.residual));
  };
  p.direct = simple();
  if (p.direct) return;
  p.program = vector_program(*c.body, p.bound);
  p.direct = p.program.has_value();
  s = {};
}

// The step with vectors along lines, if its results are neighbours there, or a few columns are and the next output lies behind them.
std::shared_ptr<const LinePlan> along_lines(const Plan& p, const Constants& c, const Call& call) {
  constexpr int64_t few = 4;  // columns beside one another: their stores are element by element
  const size_t batch = c.batch_rank;
  LineProblem q;
  if (!set_line_end(*c.body, q)) return nullptr;
  const TensorRef &to = call.operands[2 + c.body->stores[0].operand], &b = call.operands[1];
  auto steps = [](const TensorRef& t, size_t d) { return t.dims[d] == 1 ? 0 : t.strides[d]; };
  if (to.strides[batch + 1] == 1 && p.n > (c.grouped ? 1 : few)) return nullptr;
  const TensorRef* bias = q.has_bias ? &call.operands[2 + static_cast<size_t>(c.body->simple.bias)] : nullptr;
  if (bias != nullptr && bias->dims[batch] != 1 && bias->strides[batch] != 0) return nullptr;
  const std::span<const int64_t> sizes = call.sizes.subspan(3, c.map_sizes());
  q.a = call.operands[0];
  q.steps = c.map.steps;
  q.sizes = sizes;
  for (size_t d = 0; d < batch; ++d) q.kept.push_back({steps(to, d), bias != nullptr ? steps(*bias, d) : 0, c.packed ? 0 : steps(b, d)});
  int64_t step = steps(to, batch);
  q.kept.resize(batch + c.map.m_rank);
  for (size_t i = c.map.m_rank; i-- > 0; step *= sizes[batch + i]) q.kept[batch + i] = {step, 0, 0};
  q.columns = p.n;
  q.to_column = to.strides[batch + 1];
  q.bias_column = bias != nullptr ? steps(*bias, batch + 1) : 0;
  if (c.packed) {
    q.panel = tile_ops().columns;
  } else {
    q.b_summed.resize(c.map.k_rank);
    int64_t row = b.strides[batch];
    for (size_t i = c.map.k_rank; i-- > 0; row *= sizes[batch + c.map.m_rank + i]) q.b_summed[i] = row;
    q.b_column = b.strides[batch + 1];
  }
  return line_plan(q, call.workers->count());
}

// How many units to process together: their part of A fits half of a second-level cache, next to a panel of B. Groups read channels of their own: if the panels of all are small and A
// is large, lines follow one another, so that A is read as it lies.
int64_t units_together(const Plan& p) {
  constexpr int64_t most_bytes = 256 << 10;
  if (!p.direct || p.columns.size() < 2) return 1;
  if (p.column_tasks > 1) return p.line_count * p.pieces;
  if (p.groups > 1 && p.large && p.k * p.panel_row * std::ssize(p.columns) * 4 <= most_bytes) return 1;
  const int64_t bytes = p.line.extent / p.pieces * std::abs(static_cast<int64_t>(p.line.step)) * 4, taps = static_cast<int64_t>(p.taps.memory());
  return std::clamp<int64_t>(std::min(most_bytes / std::max<int64_t>(1, bytes), most_taps / std::max<int64_t>(1, taps)), 1, most_units);
}

// Tasks are ranges of lines. Tasks are groups of panels, over all lines, if workers cannot have the same number of lines. If all panels of B are more than stays in a second-level cache
// beside A, each range of lines would read them again from farther away: then a worker's lines are one range, and tasks are groups of panels over it. If even so reading B takes
// long beside the products, they go over all lines.
void share(Plan& p, int64_t wanted, int64_t workers) {
  constexpr int64_t most_bytes = 1 << 20;
  constexpr double b_rate = 30e9, products = 9e10, most_of_time = 0.2;
  const int64_t units = p.line_count * p.pieces, panels = std::ssize(p.columns), all = p.k * p.panel_row * panels * 4;
  const bool few = units <= most_units && units * static_cast<int64_t>(p.taps.memory()) <= most_taps;
  const bool divides = p.direct && p.narrow == nullptr && wanted > 1 && few && panels >= wanted, even = units % workers == 0;
  const double seconds = p.work() / products / static_cast<double>(workers);
  p.line_tasks = std::min(units, wanted);
  p.column_tasks = 1;
  if (!divides || (even && all <= most_bytes)) return;
  p.line_tasks = even && static_cast<double>(all) / b_rate < most_of_time * seconds ? workers : 1;
  p.column_tasks = wanted / p.line_tasks;
}

// By Winograd's transformation, if the tiles write the result.
std::optional<WinogradPlan> find_winograd(const Plan& p, const Constants& c, int64_t workers) {
  if (!p.direct || p.narrow != nullptr || p.dots != nullptr) return std::nullopt;
  std::vector<IndexMap::Index> inside;
  for (size_t i = c.batch_rank + c.map.m_rank; i < p.map.indices.size(); ++i) {
    if (p.map.indices[i].extent != 1) inside.push_back(p.map.indices[i]);
  }
  const int64_t group_step = p.group_axis == SIZE_MAX ? 0 : static_cast<int64_t>(p.map.indices[p.group_axis].step);
  return winograd_plan({p.map, p.lines, p.line, inside, p.groups, group_step, p.n, std::ssize(p.columns), p.panel_row, p.tiles->lanes, workers});
}

// True if the panels of B are its own memory.
bool lies_in_panels(const Plan& p, const TensorRef& b, size_t batch_rank) {
  const bool one_each = p.n == p.panel_row && p.narrow == nullptr && b.strides[batch_rank] == p.n && b.strides[batch_rank + 1] == 1;
  return one_each && (p.group_axis == SIZE_MAX || p.groups == 1 || b.strides[p.group_axis] == p.k * p.n);
}

}  // namespace

Resolved resolve(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  auto p = std::make_shared<Plan>();
  p->m = call.sizes[0];
  p->n = call.sizes[1];
  p->k = call.sizes[2];
  if (p->m < 0 || p->n < 0 || p->k < 0) refuse("a negative size");
  const TensorRef& a = call.operands[0];
  if (a.dtype != DType::f32) refuse("A is not f32");
  if (call.sizes.size() < 3 + c.map_sizes() || a.rank != c.map.rank) refuse("the operand read through a map does not have the map's rank");
  p->map = resolve_index_map("direct_conv", c.map.steps, a, call.sizes.subspan(3, c.map_sizes()));
  find_groups(*p, c, call.operands[1]);
  check_extents(*p, c);
  std::vector<int64_t> domain;
  for (size_t d = 0; d < c.batch_rank; ++d) {
    if (d != p->group_axis) domain.push_back(p->map.indices[d].extent);
  }
  domain.push_back(p->m);
  domain.push_back(p->groups * p->n);
  std::vector<Joined> axes;
  std::vector<TensorRef> joined;
  if (c.grouped) join_groups(*p, c, call.operands.subspan(2), axes, joined);
  p->bound = bind_program(c.body, c.grouped ? std::span<const TensorRef>(joined) : call.operands.subspan(2), call.sizes.subspan(3 + c.map_sizes()), domain, false);
  p->lines_plan = along_lines(*p, c, call);
  if (p->lines_plan != nullptr) return {scratch_of(*p->lines_plan), p};
  // Pairs of columns that read one channel each fill the widest vectors.
  constexpr int64_t widest = 16;
  const bool pairs = c.grouped && p->n == 2 && p->map.indices[p->group_axis].step == 1 && p->groups % (widest / 2) == 0;
  p->tiles = &direct_tiles(c.grouped, pairs ? widest : p->n);
  const int64_t lanes = p->tiles->lanes;
  p->panel_row = c.packed ? tile_ops().columns : p->n <= lanes ? lanes : 2 * lanes;
  if (c.packed && tile_ops().columns != 2 * lanes) refuse("the packed B has panels of another width");
  p->dots = find_dots(*p, c);
  if (p->dots != nullptr) p->panel_row = 1;
  find_indices(*p, c);
  find_columns(*p);
  if (p->dots != nullptr) {
    p->panel_bytes = padded(static_cast<size_t>(p->k * p->n) * 4);
  } else if (!c.packed && !lies_in_panels(*p, call.operands[1], c.batch_rank)) {
    p->panel_bytes = padded(p->columns.size() * static_cast<size_t>(p->k * p->panel_row) * 4);
  }
  find_end(*p, c);
  for (const IndexMap::Index& i : p->lines) p->line_count *= i.extent;
  const int64_t workers = call.workers->count();
  const int64_t wanted = p->work() < 100000 ? 1 : workers * 4;  // with less, other workers take longer to start than to compute
  p->winograd = find_winograd(*p, c, workers);
  if (p->winograd) {
    p->block_bytes = padded(p->winograd->bytes());
  } else if (p->line_count > 0 && p->line_count < wanted) {
    p->pieces = std::clamp<int64_t>(wanted / p->line_count, 1, std::max<int64_t>(1, p->line.extent / 24));
  }
  share(*p, wanted, workers);
  constexpr int64_t large = 1 << 20;
  p->large = p->line_count * p->line.extent * std::abs(static_cast<int64_t>(p->line.step)) * 4 > large;
  if (!p->winograd) p->units = units_together(*p);
  if (p->units == 1) p->taps.keep_sets();
  if (!p->lines.empty()) p->next_line = static_cast<int64_t>(p->lines.back().step);
  p->tap_bytes = padded(static_cast<size_t>(p->units) * p->taps.memory() * sizeof(WindowTap));
  p->bias_bytes = p->n % lanes == 0 || p->narrow != nullptr ? 0 : 2 * padded(static_cast<size_t>(p->groups * p->n + 2 * lanes) * 4);
  p->line_bytes = p->direct ? 0 : padded(static_cast<size_t>((p->line.extent / p->pieces + 1) * p->groups * p->n) * 4);
  p->per_worker = p->tap_bytes + p->bias_bytes + p->line_bytes + p->block_bytes + padded(p->bound.scratch);
  return {p->panel_bytes + static_cast<size_t>(workers) * p->per_worker, p};
}

}  // namespace direct_conv

}  // namespace ingot::kernels
