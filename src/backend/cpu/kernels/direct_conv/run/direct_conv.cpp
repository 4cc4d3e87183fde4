// The "direct_conv" kernel: convolutions that read A through a map, without copying windows. Constants are the matmul step's.
//
// A line is the range of the last index of M. Several of its outputs and one or two vectors of columns are in registers at a time. Elements of A are read in
// place, so any order of axes will do. B is in panels: those of "matmul_pack", or, for several groups, packed at the start of each run. The columns of groups
// are then adjacent in the body's domain too: [batch.., M, G N] instead of [batch.., G, .., M, N].
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "backend/cpu/kernels/direct_conv/run/line_end.h"
#include "backend/cpu/kernels/direct_conv/run/tile.h"
#include "backend/cpu/kernels/direct_conv/run/winograd.h"
#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/run/isa.h"
#include "base/error.h"
#include "kernels/matmul/run/matmul_args.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

const DirectTiles& direct_tiles(bool grouped, int64_t columns) {
  using enum backend::cpu::Isa;
  const backend::cpu::Isa isa = backend::cpu::isa();
  if (isa == portable) return direct_tiles_portable;
  return isa == avx2 || (grouped && columns <= direct_tiles_avx2.lanes) ? direct_tiles_avx2 : direct_tiles_avx512;
}

namespace {

using ir::DType;

struct Constants {
  bool packed;
  size_t batch_rank;
  GemmMap map;
  std::shared_ptr<const Program> body;
  bool grouped;
  size_t map_sizes() const { return batch_rank + map.m_rank + map.k_rank + map.rank; }
};

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

constexpr int64_t most_units = 16, most_taps = 4096, most_places = 1 << 16, most_zeros = 2048;
const float zeros[most_zeros] = {};

// Columns that are computed together.
struct Columns {
  int64_t first, a, b;  // in the result; start of their group in A; their panel
  int vectors, count;
};

// An operand of the body over the domain without the groups' axis.
struct Joined {
  int64_t dims[max_rank], strides[max_rank];
};

struct Plan {
  Bound bound;
  int64_t m, n, k, groups = 1;
  size_t group_axis = SIZE_MAX;
  IndexMap map;
  std::vector<IndexMap::Index> lines;  // indices before the line's own, batch first
  IndexMap::Index line;
  int64_t inner = 1, inner_step = 1;
  WindowTaps taps;
  const DirectTiles* tiles;
  const DirectTiles::Tile *narrow = nullptr, *dots = nullptr;
  const DirectTiles::Threes* threes = nullptr;
  std::vector<Columns> columns;
  int64_t panel_row;                   // columns of a panel
  int64_t line_count = 1, pieces = 1;
  int64_t line_tasks = 1, column_tasks = 1;
  int64_t units = 1;                   // pieces of lines that share each read of a panel of B
  bool large = false;                  // A comes from behind the second-level cache
  int64_t next_line = 0;               // elements of A from a line to the next
  bool direct = false;                 // tiles write the result themselves
  SimpleEpilogue simple;
  std::optional<VectorProgram> program;  // if `simple` is not enough
  std::optional<WinogradPlan> winograd;
  std::shared_ptr<const LinePlan> lines_plan;  // if vectors go along lines; then nothing below `bound` is used
  size_t panel_bytes = 0, tap_bytes, bias_bytes, line_bytes, block_bytes = 0, per_worker;

  double work() const { return static_cast<double>(line_count * line.extent) * static_cast<double>(groups * n) * static_cast<double>(k); }  // products
};

[[noreturn]] void refuse(const char* what) { fail(Code::format, "direct_conv: {}", what); }

size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

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
  const bool narrow = c.grouped && p.n < p.tiles->lanes;
  while (k.size() > 1 && k.back().extent == 1) k.pop_back();
  if (!narrow) k = collapsed(k, p.map.axes);
  if (narrow) {
    const auto channels = static_cast<int64_t>(all[p.group_axis].step);
    const bool beside = channels == 1 || (k.back().extent == channels && k.back().step == 1 && !leaves(k.back()));
    p.narrow = beside && p.groups * p.n >= p.tiles->lanes ? p.tiles->narrow(channels, p.n) : nullptr;
    if (p.narrow == nullptr) refuse("there are no tiles for groups of these sizes");
    p.inner = channels;
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

// The step with vectors along lines, if its results are neighbours there and not along columns.
std::shared_ptr<const LinePlan> along_lines(const Plan& p, const Constants& c, const Call& call) {
  const size_t batch = c.batch_rank;
  LineProblem q;
  if (!set_line_end(*c.body, q)) return nullptr;
  const TensorRef &to = call.operands[2 + c.body->stores[0].operand], &b = call.operands[1];
  auto steps = [](const TensorRef& t, size_t d) { return t.dims[d] == 1 ? 0 : t.strides[d]; };
  if (to.strides[batch + 1] == 1 && p.n > 1) return nullptr;
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
  p->tiles = &direct_tiles(c.grouped, p->n);
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
  if (!p->lines.empty()) p->next_line = static_cast<int64_t>(p->lines.back().step);
  p->tap_bytes = padded(static_cast<size_t>(p->units) * p->taps.memory() * sizeof(WindowTap));
  p->bias_bytes = p->n % lanes == 0 || p->narrow != nullptr ? 0 : 2 * padded(static_cast<size_t>(p->groups * p->n + 2 * lanes) * 4);
  p->line_bytes = p->direct ? 0 : padded(static_cast<size_t>((p->line.extent / p->pieces + 1) * p->groups * p->n) * 4);
  p->per_worker = p->tap_bytes + p->bias_bytes + p->line_bytes + p->block_bytes + padded(p->bound.scratch);
  return {p->panel_bytes + static_cast<size_t>(workers) * p->per_worker, p};
}

// Packs the panel of some columns: K rows, padded with zeros.
void pack(const Plan& p, const TensorRef& b, size_t batch_rank, const Columns& columns, float* to) {
  const int64_t row = b.strides[batch_rank], column = b.strides[batch_rank + 1], of_group = p.group_axis == SIZE_MAX ? 0 : b.strides[p.group_axis];
  const auto* from = reinterpret_cast<const float*>(b.data);
  const bool beside = column == 1 && (columns.first % p.n + columns.count <= p.n || of_group == p.n);
  int64_t source[32];
  for (int64_t j = 0; j < columns.count; ++j) source[j] = (columns.first + j) / p.n * of_group + (columns.first + j) % p.n * column;
  for (int64_t k = 0; k < p.k; ++k, from += row, to += p.panel_row) {
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

std::span<const RunKernel> direct_conv_cpu_kernels() {
  static constexpr RunKernel list[] = {{"direct_conv", load, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
