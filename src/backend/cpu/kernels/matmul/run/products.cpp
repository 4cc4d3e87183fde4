#include "backend/cpu/kernels/matmul/run/products.h"

// B is in panels of `columns` columns, [N / columns][K][columns], zero-padded: f32; for a packed weight also its own half type (bf16 in pairs along K, [N
// / columns][K / 2][columns][2]); int8, for an encoded weight, or groups of 4-bit numbers (panels_of); f64; or int64, for integers of any type. Tiles widen half types and int8 in registers or multiply them directly; with many rows,
// blocks of an int8 panel are decoded for f32 or bf16 tiles. A block of rows of A times a panel is computed one K block at a time, so that A's block
// stays in the second-level cache and the panel's in the first. The epilogue runs on each tile as it leaves the registers (bias, activation, residual),
// or on row segments of a finished block (any fused body).
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "backend/cpu/kernels/conv/run/cost.h"
#include "backend/cpu/kernels/conv/run/tuning.h"
#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/matmul/run/pack.h"
#include "backend/cpu/kernels/matmul/run/problem.h"
#include "backend/cpu/kernels/matmul/run/row_end.h"
#include "backend/cpu/kernels/matmul/run/tile_i4.h"
#include "backend/cpu/kernels/matmul/run/tile_i8.h"
#include "backend/cpu/kernels/matmul/run/tuning.h"
#include "backend/cpu/run/hardware.h"
#include "backend/cpu/run/isa.h"
#include "backend/run/device.h"
#include "base/error.h"
#include "base/hash.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels::matmul {

namespace {

using ir::DType;

// How a product is cut: what can be timed.
struct Blocking {
  int64_t rows;  // of a block, about
  int64_t sums;  // blocks of K
  int64_t panels;  // of a B that is not packed: how many a worker packs before their products; 0: B is packed already
  std::string text(const Algorithm& of) const { return fmt::format("{} {} rows, K by {}, {} panels packed", of.kernel, rows, sums, panels); }
};

struct Plan : Problem {
  explicit Plan(Problem p) : Problem(std::move(p)) {}

  int64_t panels;
  DType panel = DType::f32;
  Way way = {};
  const TileOps::Tile* tiles;
  int64_t row_bytes, panel_rows;  // of a panel
  int64_t a_size = 4;  // bytes per element of A as tiles read it
  int64_t c_words = 1;  // floats in the memory of a sum
  bool direct;  // tiles run the epilogue and store into the result themselves
  bool plain = false;  // sums of 8 bytes are the results: tiles store them there
  std::vector<Blocking> choices;  // the usual one first
  Blocking blocking;
  int64_t k_size;  // of a K block
  int64_t row_tasks, column_tasks;
  int64_t row_unit;  // of tasks, in rows
  size_t a_bytes, c_bytes, b_bytes, decoded_bytes, per_worker;
  SimpleEpilogue simple;
  std::optional<VectorProgram> program;  // the tiles' epilogue if `simple` is not enough
  const TileOps::Tiles::PartTile* part_tiles = nullptr;  // for a last panel that is not full; null: tile_of_part
};

// Chooses an epilogue that runs in the tiles, if there is one.
void find_end(Plan& p, const Program& body) {
  const auto& strides = p.bound.strides;
  SimpleEpilogue& s = p.simple = body.simple;
  p.direct = false;
  const ProgramStore& store = body.stores[0];
  p.plain = !p.f32 && p.k > 0 && body.code.size() == 1 && body.has_accumulator && body.memory[store.operand] == p.way.panel && strides[store.operand].back() == 1;
  if (!p.f32 || p.k == 0 || strides[body.stores[0].operand].back() != 1) return;
  auto is_row = [&](int k) {  // the same for all rows: a bias
    const std::vector<int64_t>& of = strides[static_cast<size_t>(k)];
    return of.back() == 1 && std::all_of(of.begin(), of.end() - 1, [](int64_t x) { return x == 0; });
  };
  if (s.valid) {
    s.order(is_row);
    const bool residual = s.residual < 0 || strides[static_cast<size_t>(s.residual)].back() == 1;
    p.direct = (s.scale < 0 || is_row(s.scale)) && (s.bias < 0 || is_row(s.bias)) && residual && (s.slope_operand < 0 || p.bound.is_one(s.slope_operand));
    auto is_f32 = [&](int k) { return k < 0 || body.memory[static_cast<size_t>(k)] == DType::f32; };
    const bool f32 = s.type == DType::f32 && is_f32(s.scale) && is_f32(s.bias) && is_f32(s.residual);
    const int64_t width = tile_ops().columns, count = p.n % width;
    if (p.direct && f32 && count != 0 && TileEnd::is_short(s.activation)) p.part_tiles = p.way.tiles->part[2 * count > width];
    if (p.direct) return;
  }
  p.program = vector_program(body, p.bound);
  p.direct = p.program.has_value();
  if (!p.direct) return;
  s = {};
  s.type = body.memory[body.stores[0].operand];
}

// By what one worker of several reads more than its share, in nanoseconds: all of B if it has rows of its own; all of A, and results from which later steps want rows, if it has panels.
// Panels come from the third-level cache, and mostly ahead of their use; A and the result from the cache of another core.
bool rows_pay(const Plan& p, int64_t workers) {
  const Machine& machine = backend::cpu::machine();
  const double of_b = p.blocking.panels > 0 ? tuning::rate_of_packing * machine.l3 : tuning::rate_of_l3 * machine.l3;
  auto uneven = [&](int64_t parts) { return static_cast<double>((parts + workers - 1) / workers * workers) / static_cast<double>(parts) - 1; };
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double share = m * n * k / machine.f32 / static_cast<double>(workers);
  const double b_bytes = static_cast<double>(p.panels * p.panel_rows * p.row_bytes), others = (m * k + m * n) * 4;
  const int64_t tiles = p.way.tile_count(p.m);
  return share * std::min(uneven(tiles), tuning::max_imbalance) + b_bytes / of_b < share * uneven(p.panels) + others / machine.other_core;
}

// Tasks are blocks of rows times groups of panels. Each worker gets rows of its own if they pay, since the steps before and after use the same rows on the same core. A task takes
// 10 us or more, so that a late worker leaves little to wait for; waking another takes about 2.
void share(Plan& p, bool copies, int64_t workers) {
  p.row_tasks = p.column_tasks = p.row_unit = 1;
  if (p.batch % workers == 0 || static_cast<double>(p.batch) > tuning::batches_of_worker * static_cast<double>(workers)) return;
  const Machine& machine = backend::cpu::machine();
  const double work = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const int64_t row_blocks = p.way.blocks(p.m), tiles = p.way.tile_count(p.m);
  const bool divides = workers > 1 && work >= tuning::least_wakes * machine.wake * machine.f32;
  // One worker has one task: each end of one stops the stream of B.
  auto max_tasks = static_cast<int64_t>(std::clamp(work / (tuning::wakes_of_task * machine.wake * machine.f32), 1.0, workers == 1 ? 1.0 : 4.0 * static_cast<double>(workers)));
  if (divides) max_tasks = (max_tasks + workers - 1) / workers * workers;  // as many for each
  const bool by_rows = divides && tiles >= workers && !p.way.matrix && (p.way.decodes() ? p.m >= tuning::own_rows * workers : rows_pay(p, workers));
  if (by_rows) p.row_tasks = p.blocking.panels > 0 ? workers : std::min((row_blocks + workers - 1) / workers * workers, max_tasks);
  if (!by_rows && (p.way.matrix || p.panels < max_tasks)) p.row_tasks = std::min(row_blocks, max_tasks);
  p.column_tasks = std::clamp<int64_t>(max_tasks / p.row_tasks, 1, p.panels);
  // With a map, or if A's columns are strided, each group of panels copies its rows again: use only as many groups as have enough columns to pay for it, or as the workers need.
  if (copies) p.column_tasks = std::min(p.column_tasks, std::max(p.n / tuning::copy_columns, (workers + p.row_tasks - 1) / p.row_tasks));
  if (divides && p.row_tasks * p.column_tasks < workers && p.panels < workers) p.row_tasks = std::clamp<int64_t>(p.m / p.way.tiles->rows, 1, workers);
  const int64_t unit = p.way.tiles->rows, whole = (tiles + workers - 1) / workers * unit;
  p.row_unit = by_rows && static_cast<double>(whole * workers) > static_cast<double>(p.m) * (1 + tuning::max_imbalance) ? 1 : unit;
}

// How many panels of a B that is not packed a worker packs before it multiplies them: few rows read each once, from the second-level cache; many rows read them again and again, and their
// blocks of A once for each group.
int64_t panels_at_a_time(const Plan& p) {
  const int64_t bytes = std::max<int64_t>(1, p.panel_rows * p.row_bytes);
  return std::clamp<int64_t>(p.m <= tuning::narrow_rows ? tuning::packed_for_narrow / bytes : std::max(tuning::least_packed_panels, tuning::packed_for_wide / bytes), 1,
                             std::max<int64_t>(1, p.panels));
}

// The usual blocking, and others that can be timed: K in one block more or less, unless that is one block, as then a result may lie in the memory of what its body reads; blocks of half as many rows,
// which leave more of a cache to B; B packed for twice or half as many columns at a time.
std::vector<Blocking> blockings_of(const Plan& p, const Constants& c) {
  const int64_t sums = std::max<int64_t>(1, (p.k + p.way.k_size(p.m) - 1) / p.way.k_size(p.m));
  const Blocking usual{p.way.rows, sums, c.packed ? 0 : panels_at_a_time(p)};
  std::vector<Blocking> out{usual};
  if (p.way.matrix) return out;
  if (sums > 1 && !c.in_order) {
    for (int64_t other : {sums - 1, sums + 1}) out.push_back({usual.rows, other, usual.panels});
  }
  if (p.way.blocks(p.m) > 1) out.push_back({usual.rows / 2, sums, usual.panels});
  if (usual.panels > 0 && usual.panels < p.panels) out.push_back({usual.rows, sums, std::min(p.panels, 2 * usual.panels)});
  if (usual.panels > 1) out.push_back({usual.rows, sums, usual.panels / 2});
  return out;
}

// Tunable::problem: sizes, types and layouts, on which the best blocking depends.
std::string problem_of(const Algorithm& of, const Constants& c, const Call& call) {
  std::vector<int64_t> layouts(call.sizes.begin(), call.sizes.end());
  for (const TensorRef& t : call.operands) {
    layouts.push_back(static_cast<int64_t>(t.dtype));
    layouts.insert(layouts.end(), t.dims, t.dims + t.rank);
    layouts.insert(layouts.end(), t.strides, t.strides + t.rank);
  }
  if (c.map) layouts.insert(layouts.end(), c.map->steps.begin(), c.map->steps.end());
  return fmt::format("{} {} x {} x {}{}, layouts {:016x}", of.kernel, call.sizes[0], call.sizes[1], call.sizes[2], c.in_order ? " in order" : "",
                     hash64(std::as_bytes(std::span(layouts))));
}

// The blocking that was timed as the fastest, or that is being timed; else the usual one.
Blocking blocking_of(const Plan& p, const Algorithm& of, const Constants& c, const Call& call) {
  if (p.choices.size() == 1 || !backend::has_choices(call)) return p.choices[0];
  const std::string_view wanted = backend::wanted_choice(call, problem_of(of, c, call));
  const auto found = std::find_if(p.choices.begin(), p.choices.end(), [&](const Blocking& b) { return b.text(of) == wanted; });
  return found == p.choices.end() ? p.choices[0] : *found;
}

// Resolved::nanoseconds.
double nanoseconds_of(const Plan& p, const Algorithm& of, const Constants& c, const Call& call) {
  ProductSizes sizes{static_cast<double>(p.batch * p.m), p.m, p.n, p.k, p.panel, c.packed, c.in_order, p.f32 && ir::size_of(c.body->memory[c.body->stores[0].operand]) == 2};
  if (c.map)
    sizes.image = conv::sizes_of(resolve_index_map("matmul", c.map->steps, call.operands[0], call.sizes.subspan(3, c.map_sizes())), static_cast<size_t>(c.batch_rank),
                                 c.map->m_rank, SIZE_MAX, p.n);
  const std::vector<int64_t>& to = p.bound.strides[c.body->stores[0].operand];
  if (sizes.image && to.back() != 1 && p.n > 1) sizes.image->order_cycles = sizes.image->outputs * static_cast<double>(p.n) * conv::tuning::scattered_result;
  return of.cost(sizes, {backend::cpu::machine(), tile_ops().columns / 2, call.workers->count()});
}

}  // namespace

Resolved resolve(const Call& call, const Algorithm& of) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const TensorRef &a = call.operands[0], &b = call.operands[1];
  const Class of_sum = c.body->has_accumulator ? c.body->accumulator : Class::f32;
  const DType sum = of_sum == Class::f64 ? DType::f64 : of_sum == Class::i64 ? DType::i64 : DType::f32;
  const std::optional<Way> way = of.way({a.dtype, b.dtype, sum, c.packed, c.map.has_value(), c.in_order, call.sizes[0], c.groups});
  if (!way) return {0, nullptr, conv::never};
  auto p = std::make_shared<Plan>(checked(call));
  p->way = *way;
  p->panel = way->panel;
  const TileOps& ops = tile_ops();
  p->panels = (p->n + ops.columns - 1) / ops.columns;
  if (!p->f32) p->c_words = 2;
  p->a_size = static_cast<int64_t>(ir::size_of(p->way.a));
  p->tiles = c.in_order ? p->way.tiles->in_order : p->way.tiles->tile;
  p->row_bytes = row_bytes(p->panel, way->groups);
  p->panel_rows = panel_rows(p->panel, p->k, way->groups);
  find_end(*p, *c.body);
  const int64_t workers = call.workers->count();
  p->choices = blockings_of(*p, c);
  p->blocking = blocking_of(*p, of, c, call);
  p->way.rows = p->blocking.rows;
  const int64_t unit = c.in_order && !p->way.matrix ? p->way.sum : std::max<int64_t>(32, c.groups.size);  // in order, blocks of K are whole sums, which are whole groups
  p->k_size = std::max<int64_t>(1, ((p->k + p->blocking.sums - 1) / p->blocking.sums + unit - 1) / unit) * unit;
  p->a_bytes = static_cast<size_t>(padded((std::min(p->m, p->way.max_rows()) + 16) * (p->k_size + 16) * std::max<int64_t>(p->a_size, 4)));
  const int64_t c_columns = p->direct && p->simple.type == DType::f32 ? ops.columns : tuning::columns_of_block + ops.columns;
  p->c_bytes = static_cast<size_t>(padded((std::min(p->m, p->way.max_rows()) + 16) * c_columns * 8));
  p->b_bytes = p->blocking.panels == 0 ? 0 : static_cast<size_t>(padded(storage_bytes(panels_of(p->panel), std::array{p->k, p->blocking.panels * ops.columns})));
  p->decoded_bytes = p->way.decodes() ? static_cast<size_t>(padded(panel_rows(p->way.decoded, p->k_size) * row_bytes(p->way.decoded) + tuning::read_ahead)) : 0;
  p->per_worker = static_cast<size_t>(padded(static_cast<int64_t>(p->a_bytes + p->c_bytes + p->b_bytes + p->decoded_bytes + p->bound.scratch)));
  share(*p, c.map.has_value() || a.strides[c.batch_rank + 1] != 1, workers);
  return {static_cast<size_t>(workers) * p->per_worker, p, nanoseconds_of(*p, of, c, call)};
}

std::vector<Tunable> tunables(const Call& call, const Algorithm& of) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const Resolved usual = resolve(call, of);
  if (usual.state == nullptr) return {};
  std::vector<std::string> choices;
  for (const Blocking& b : static_cast<const Plan*>(usual.state.get())->choices) choices.push_back(b.text(of));
  if (choices.size() == 1) return {};
  return {{call.backend->machine(), problem_of(of, c, call), std::move(choices)}};
}

namespace {

// A of the batch at hand, in the form that tiles read.
class RowsOfA {
 public:
  RowsOfA(const Call& call, const Constants& c, const Plan& p, std::byte* copy) : call_(call), c_(c), p_(p), copy_(copy) {}

  // `offset`: of the batch, in elements.
  void set_batch(int64_t offset) {
    const TensorRef& a = call_.operands[0];
    data_ = a.data + offset * static_cast<int64_t>(ir::size_of(a.dtype));
    if (p_.rows) return;
    row_ = a.strides[c_.batch_rank];
    column_ = a.strides[c_.batch_rank + 1];
  }

  // Rows [m, m + rows), columns [k0, k1) of A in the form that tiles read: f32, or bf16 for dot products, with contiguous columns. In place if
  // possible, otherwise a copy. `at`: the batch's coordinates. `stride`: bytes between rows.
  const std::byte* read(int64_t m, int64_t rows, int64_t k0, int64_t k1, const int64_t* at, int64_t& stride) const {
    const TensorRef& a = call_.operands[0];
    const auto size = static_cast<int64_t>(ir::size_of(a.dtype));
    const std::byte* from = data_ + (m * row_ + k0 * column_) * size;
    const bool aliases = (row_ * size) % tuning::bytes_of_aliases == 0 && p_.k > p_.k_size && rows > tuning::rows_of_aliases;
    if (!p_.rows && a.dtype == p_.way.a && column_ == 1 && !aliases) {
      stride = row_ * size;
      return from;
    }
    stride = (p_.k_size + 16) * p_.a_size;
    if (!p_.rows && a.dtype == p_.way.a && row_ == 1) {
      block_ops().transpose_elements(static_cast<size_t>(size), copy_, p_.k_size + 16, from, column_, k1 - k0, rows);
      return copy_;
    }
    for (int64_t r = 0; r < rows; ++r) {
      std::byte* to = copy_ + r * stride;
      const std::byte* row = from + r * row_ * size;
      if (p_.rows) {
        p_.rows->copy(a, at, m + r, k0, k1, reinterpret_cast<float*>(to));
      } else if (a.dtype == p_.way.a && column_ == 1) {
        std::memcpy(to, row, static_cast<size_t>((k1 - k0) * size));
      } else if (p_.way.a == DType::bf16) {
        for (int64_t k = 0; k < k1 - k0; ++k) std::memcpy(to + k * size, row + k * column_ * size, sizeof(uint16_t));
      } else if (p_.f32 && a.dtype != DType::f32 && column_ == 1) {
        tile_ops().widen(a.dtype, reinterpret_cast<float*>(to), reinterpret_cast<const uint16_t*>(row), k1 - k0);
      } else if (p_.panel == DType::i64) {
        load_i64(a.dtype, reinterpret_cast<int64_t*>(to), row, column_, k1 - k0);
      } else {
        block_ops().load(a.dtype, to, row, column_, k1 - k0);
      }
    }
    return copy_;
  }

 private:
  const Call& call_;
  const Constants& c_;
  const Plan& p_;
  std::byte* const copy_;
  const std::byte* data_ = nullptr;
  int64_t row_ = 0, column_ = 0;
};

// Panels of B of the batch at hand. They may be held packed, some at a time.
class PanelsOfB {
 public:
  PanelsOfB(const Call& call, const Constants& c, const Plan& p, std::byte* packed, std::byte* decoded) : call_(call), c_(c), p_(p), packed_(packed), decoded_(decoded) {}

  // `offset`: of the batch, in elements.
  void set_batch(int64_t offset) {
    const TensorRef& b = call_.operands[1];
    data_ = b.data + offset * static_cast<int64_t>(ir::size_of(b.dtype));
  }

  void pack(int64_t p0, int64_t p1) {
    const TensorRef& b = call_.operands[1];
    first_panel_ = p0;
    if (p_.panel == DType::bf16) return pack_pairs(data_, b.strides[c_.batch_rank], b.strides[c_.batch_rank + 1], p_.k, p_.n, p0, p1, packed_);
    pack_panels(data_, b.dtype, b.strides[c_.batch_rank], b.strides[c_.batch_rank + 1], p_.k, p_.n, p0, p1, packed_);
  }
  const std::byte* panel(int64_t p, int64_t k0) const {
    const std::byte* b = p_.blocking.panels > 0 ? packed_ : data_;
    return b + ((p - first_panel_) * p_.panel_rows + k0 / row_depth(p_.panel, p_.way.groups)) * p_.row_bytes;
  }
  // A K block of a panel in the form that tiles read.
  const std::byte* panel(int64_t p, int64_t k0, int64_t k1) const {
    const std::byte* from = panel(p, k0);
    if (!p_.way.decodes()) return from;
    if (p_.way.groups.size > 0) {
      (p_.way.decoded == DType::bf16 ? int4_panels().to_bf16 : int4_panels().to_f32)(decoded_, {from, p_.way.groups}, k1 - k0);
      return decoded_;
    }
    const auto* numbers = reinterpret_cast<const int8_t*>(from);
    (p_.way.decoded == DType::bf16 ? int8_panels().to_bf16 : int8_panels().to_f32)(decoded_, numbers, k1 - k0, numbers + p_.panel_rows * p_.row_bytes);
    return decoded_;
  }

 private:
  const Call& call_;
  const Constants& c_;
  const Plan& p_;
  std::byte *const packed_, *const decoded_;
  const std::byte* data_ = nullptr;
  int64_t first_panel_ = 0;  // of those that are packed
};

// One worker's share of a GEMM: rows [m0, m1), panels [p0, p1).
class Block {
 public:
  Block(const Call& call, const Constants& c, const Plan& p, int worker) : Block(call, c, p, call.scratch + static_cast<size_t>(worker) * p.per_worker) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    if (p_.way.tiles->release != nullptr) p_.way.tiles->release();
  }

  void set_batch(int64_t batch) {
    const TensorRef &a = call_.operands[0], &b = call_.operands[1];
    int64_t a_offset = 0, b_offset = 0;
    for (int d = c_.batch_rank - 1; d >= 0; --d) {
      const int64_t extent = p_.rows ? p_.rows->batch(d) : a.dims[d];
      at_[d] = batch % extent;
      batch /= extent;
      if (!p_.rows) a_offset += at_[d] * a.strides[d];
      if (!c_.packed) b_offset += at_[d] * b.strides[d];
    }
    a_.set_batch(a_offset);
    b_.set_batch(b_offset);
  }

  // Rows [m0, m1), panels [p0, p1).
  void run(int64_t m0, int64_t m1, int64_t p0, int64_t p1) {
    const int64_t blocks = p_.way.blocks(m1 - m0), held = p_.blocking.panels > 0 ? p_.blocking.panels : p1 - p0;
    for (int64_t q0 = p0; q0 < p1; q0 += held) {
      const int64_t q1 = std::min(p1, q0 + held);
      if (p_.blocking.panels > 0) b_.pack(q0, q1);
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t m = m0 + (m1 - m0) * i / blocks, rows = m0 + (m1 - m0) * (i + 1) / blocks - m;
        rows_of_panels(m, rows, q0, q1);
      }
    }
  }

 private:
  void tile(const std::byte* a, int64_t stride, int64_t rows, const std::byte* panel, int64_t k, float* c, int64_t ldc, bool first, const TileEnd* end, Ahead& ahead) const {
    in_sums(k, p_.way.sum, [&](int64_t k0, int64_t n) {
      const std::byte* const from = panel + sum_offset(k0);
      const GroupPanel groups{from, p_.way.groups};
      const void* const b = reads_groups() ? static_cast<const void*>(&groups) : from;
      p_.tiles[rows](a + k0 * p_.a_size, stride / p_.a_size, b, n, c, ldc, first && k0 == 0, k0 + n == k ? end : nullptr, ahead);
      ahead.next += 64 * ahead.lines * (n / panel_depth(p_.panel) / 4);
    });
  }
  // A tile whose sums are the result, of a panel of which this many columns count.
  void plain_tile(const std::byte* a, int64_t stride, int64_t rows, const std::byte* panel, int64_t k, float* c, int64_t ldc, bool first, int64_t columns, Ahead& ahead) const {
    const auto* of_part = p_.way.tiles->part[0];
    if (columns == ops_.columns || of_part == nullptr) return tile(a, stride, rows, panel, k, c, ldc, first, nullptr, ahead);
    in_sums(k, p_.way.sum, [&](int64_t k0, int64_t n) {
      of_part[rows](a + k0 * p_.a_size, stride / p_.a_size, panel + sum_offset(k0), n, c, ldc, first && k0 == 0, nullptr, static_cast<int>(columns));
    });
  }
  // True if tiles read numbers of 4 bits as they are.
  bool reads_groups() const { return p_.way.groups.size > 0 && !p_.way.decodes(); }
  int64_t sum_offset(int64_t k0) const {
    if (reads_groups()) return k0 / p_.way.groups.size * p_.row_bytes;
    const DType type = p_.way.decodes() ? p_.way.decoded : p_.panel;
    return k0 / panel_depth(type) * row_bytes(type);
  }
  // Calls f(k0, n) for the parts of k products that are one sum each.
  template <class F>
  static void in_sums(int64_t k, int64_t longest, F f) {
    for (int64_t k0 = 0; k0 < k; k0 += longest) f(k0, std::min(k - k0, longest));
  }

  // A tile of a last panel that is not full: its epilogue must not read past the columns, and only these are stored.
  void tile_of_part(const std::byte* a, int64_t stride, int64_t rows, const std::byte* panel, int64_t k, float* c, int64_t ldc, bool first, const TileEnd& end, std::byte* to,
                    int64_t to_stride, Ahead& ahead) const {
    constexpr int64_t widest = run_tuning::vectors_of_panel * backend::cpu::hardware::max_lanes, max_rows = run_tuning::max_tile_rows;
    const int64_t count = p_.n % ops_.columns;
    alignas(64) std::byte scale[widest * 4] = {}, bias[widest * 4] = {}, residual[max_rows * widest * 4];
    TileEnd part = end;
    part.half = nullptr;  // a program knows the number of columns itself
    auto copy = [&](std::byte* into, const void* from, DType type) { std::memcpy(into, from, static_cast<size_t>(count) * ir::size_of(type)); };
    if (end.scale != nullptr) copy(scale, end.scale, end.scale_type), part.scale = scale;
    if (end.bias != nullptr) copy(bias, end.bias, end.bias_type), part.bias = bias;
    if (end.residual != nullptr) {
      const auto size = static_cast<int64_t>(ir::size_of(end.residual_type));
      for (int64_t r = 0; r < rows; ++r) copy(residual + r * widest * size, static_cast<const std::byte*>(end.residual) + r * end.residual_stride * size, end.residual_type);
      part.residual = residual;
      part.residual_stride = widest;
    }
    tile(a, stride, rows, panel, k, c, ldc, first, &part, ahead);
    const DType type = p_.simple.type;
    for (int64_t r = 0; r < rows; ++r) {
      if (type == DType::f32) {
        std::memcpy(to + r * to_stride * 4, c + r * ldc, static_cast<size_t>(count) * 4);
      } else {
        block_ops().store(type, to + r * to_stride * static_cast<int64_t>(ir::size_of(type)), 1, {c + r * ldc, false}, count);
      }
    }
  }

  // An operand of the body from row m of this batch on, with contiguous rows.
  struct Rows {
    std::byte* data;
    DType type;
    int64_t stride;
    std::byte* at(int64_t row, int64_t column) const { return data + (row * stride + column) * static_cast<int64_t>(ir::size_of(type)); }
  };
  Rows rows_of(int operand, int64_t m) const {
    if (operand < 0) return {};
    const auto k = static_cast<size_t>(operand);
    const std::vector<int64_t>& strides = p_.bound.strides[k];
    const TensorRef& t = call_.operands[body_operand(k)];
    Rows rows{t.data, t.dtype, strides[static_cast<size_t>(c_.batch_rank)]};
    int64_t offset = m * rows.stride;
    for (int d = 0; d < c_.batch_rank; ++d) offset += at_[d] * strides[static_cast<size_t>(d)];
    rows.data = rows.at(0, offset);
    return rows;
  }

  // True if the result has the memory of an operand of the body.
  bool reuses_operand() const {
    const size_t store = c_.body->stores[0].operand, operands = body_operands(call_.operands).size();
    for (size_t k = 0; k < operands; ++k) {
      if (k != store && call_.operands[body_operand(k)].data == call_.operands[body_operand(store)].data) return true;
    }
    return false;
  }

  // What is read after a panel, which its tiles prefetch together. After the last panel of a matrix this is past the end, which is harmless.
  Ahead following(const std::byte* next, int64_t tiles) const {
    if (tiles < 2 || p_.way.decodes() || reads_groups()) return {};
    return {next, static_cast<int>(std::bit_ceil(static_cast<uint64_t>((p_.row_bytes / 16 + tiles - 1) / tiles)))};
  }

  // Computes rows [m, m + rows), panels [p0, p1). Sums are kept in the result if tiles store f32; in one tile if they store a half type and K is one block;
  // otherwise in a block of rows by a segment of columns.
  void rows_of_panels(int64_t m, int64_t rows, int64_t p0, int64_t p1) {
    const SimpleEpilogue& s = p_.simple;
    const bool in_result = p_.plain || (p_.direct && s.type == DType::f32), in_tile = p_.direct && !in_result && p_.k <= p_.k_size;
    const int64_t tiles = p_.way.tile_count(rows), per = in_result || in_tile ? p1 - p0 : std::max<int64_t>(1, tuning::columns_of_block / ops_.columns);
    const Rows result = rows_of(c_.body->stores[0].operand, m), scale = p_.direct ? rows_of(s.scale, m) : Rows{}, bias = p_.direct ? rows_of(s.bias, m) : Rows{},
               residual = p_.direct ? rows_of(s.residual, m) : Rows{};
    VectorEnd program, of_tile;
    if (p_.program) {
      at_[c_.batch_rank] = m;
      program = vector_end(*p_.program, p_.bound, body_operands(call_.operands), at_, p_.n);
    }
    TileEnd end;
    end.activation = s.activation;
    end.activates_last = s.activates_last;
    end.low = s.low;
    end.high = s.high;
    end.hard_swish_by = s.hard_swish_by;
    end.slope = s.slope_operand < 0 ? s.slope : *reinterpret_cast<const float*>(call_.operands[body_operand(static_cast<size_t>(s.slope_operand))].data);
    end.scale_type = scale.type;
    end.bias_type = bias.type;
    end.residual_type = residual.type;
    end.residual_stride = residual.stride;
    end.half_type = s.type;
    end.half_stride = result.stride;
    // A long epilogue reads its operands after the sums are in memory. Where the residual's memory becomes the result's, the sums are in scratch until then.
    const bool reuses = reuses_operand(), in_scratch = in_result && (p_.program || !end.is_short()) && reuses;
    Evaluator evaluator(p_.bound, body_operands(call_.operands), body_);
    auto* scratch = reinterpret_cast<float*>(c_block_);
    for (int64_t q = p0; q < p1; q += per) {
      const int64_t q1 = std::min(p1, q + per), ldc = in_result ? result.stride : in_tile ? ops_.columns : (q1 - q) * ops_.columns;
      if (p_.k == 0) std::fill(scratch, scratch + rows * ldc * p_.c_words, 0.0f);
      for (int64_t k0 = 0; k0 < p_.k; k0 += p_.k_size) {
        int64_t k1 = std::min(p_.k, k0 + p_.k_size), lda;
        const std::byte* a = a_.read(m, rows, k0, k1, at_, lda);
        const bool ends = p_.direct && k1 == p_.k;
        for (int64_t p = q; p < q1; ++p) {
          const std::byte* from = b_.panel(p, k0, k1);
          const int64_t n = p * ops_.columns;
          Ahead ahead = following(p + 1 == q1 && k1 < p_.k ? b_.panel(q, k1) : b_.panel(p + 1, p + 1 == q1 ? 0 : k0), tiles);
          if (scale.data != nullptr) end.scale = scale.at(0, n);
          if (bias.data != nullptr) end.bias = bias.at(0, n);
          const bool part = (p_.direct || p_.plain) && n + ops_.columns > p_.n;
          for (int64_t t = 0; t < tiles; ++t) {
            const int64_t r0 = p_.way.first_row(t, tiles, rows), r1 = p_.way.first_row(t + 1, tiles, rows);
            if (residual.data != nullptr) end.residual = residual.at(r0, n);
            if (p_.program) {
              of_tile = program.from(r0, n);
              end.program = &of_tile;
            }
            if (p_.direct && !in_result) end.half = reinterpret_cast<uint16_t*>(result.at(r0, n));
            if (part && p_.part_tiles != nullptr) {
              // Few columns: loading and storing sums costs little. But what is in the result's memory is still to be read, and few rows read int8 by other
              // tiles, which in order must give the same bits.
              const int64_t longest = reuses || p_.way.decodes() ? p_.way.sum : 128;
              in_sums(k1 - k0, longest, [&](int64_t part_k, int64_t count) {
                const bool last = ends && part_k + count == k1 - k0;
                p_.part_tiles[r1 - r0](a + r0 * lda + part_k * p_.a_size, lda / p_.a_size, from + sum_offset(part_k), count, reinterpret_cast<float*>(result.at(r0, n)),
                                       result.stride, k0 + part_k == 0, last ? &end : nullptr, static_cast<int>(p_.n - n));
              });
              continue;
            }
            float* c = in_tile ? scratch : scratch + (r0 * ldc + (p - q) * ops_.columns) * p_.c_words;
            if (in_result) c = part || in_scratch ? scratch + r0 * ops_.columns * p_.c_words : reinterpret_cast<float*>(result.at(r0, n));
            const int64_t c_row = (part && in_result) || in_scratch ? ops_.columns : ldc;
            if (p_.plain) {
              const int64_t columns = std::min<int64_t>(ops_.columns, p_.n - n);
              plain_tile(a + r0 * lda, lda, r1 - r0, from, k1 - k0, c, c_row, k0 == 0, columns, ahead);
              for (int64_t r = r0; part && k1 == p_.k && r < r1; ++r)
                std::memcpy(result.at(r, n), scratch + r * ops_.columns * p_.c_words, static_cast<size_t>(columns) * sizeof(double));
            } else if (part && ends) {
              tile_of_part(a + r0 * lda, lda, r1 - r0, from, k1 - k0, c, c_row, k0 == 0, end, result.at(r0, n), result.stride, ahead);
            } else {
              tile(a + r0 * lda, lda, r1 - r0, from, k1 - k0, c, c_row, k0 == 0, ends ? &end : nullptr, ahead);
              for (int64_t r = r0; in_scratch && ends && r < r1; ++r) std::memcpy(result.at(r, n), scratch + r * ops_.columns, static_cast<size_t>(ops_.columns) * 4);
            }
          }
        }
      }
      if (p_.direct || p_.plain) continue;
      const int64_t n = q * ops_.columns, columns = std::min(q1 * ops_.columns, p_.n) - n;
      for (int64_t r = 0; r < rows; ++r) {
        at_[c_.batch_rank] = m + r;
        end_row(evaluator, p_.bound, at_, n, columns, scratch + r * ldc * p_.c_words, p_.c_words);
      }
    }
  }

  // scratch: A's copy, a block of C, B's panels, a decoded panel, the body's.
  Block(const Call& call, const Constants& c, const Plan& p, std::byte* scratch)
      : call_(call),
        c_(c),
        p_(p),
        ops_(tile_ops()),
        a_(call, c, p, scratch),
        b_(call, c, p, scratch + p.a_bytes + p.c_bytes, scratch + p.a_bytes + p.c_bytes + p.b_bytes),
        c_block_(scratch + p.a_bytes),
        body_(scratch + p.a_bytes + p.c_bytes + p.b_bytes + p.decoded_bytes) {}

  const Call& call_;
  const Constants& c_;
  const Plan& p_;
  const TileOps& ops_;
  RowsOfA a_;
  PanelsOfB b_;
  std::byte *const c_block_, *const body_;
  int64_t at_[16] = {};
};

}  // namespace

void run(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Plan*>(call.prepared);
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  const int64_t rows = p.row_unit, units = (p.m + rows - 1) / rows, of_batch = p.row_tasks * p.column_tasks;
  call.workers->run(p.batch * of_batch, [&](int64_t t, int worker) {
    Block block(call, c, p, worker);
    block.set_batch(t / of_batch);
    const int64_t r = t % of_batch / p.column_tasks, g = t % p.column_tasks;  // tasks of a worker share rows; workers traverse the panels in parallel
    block.run(std::min(p.m, units * r / p.row_tasks * rows), std::min(p.m, units * (r + 1) / p.row_tasks * rows), p.panels * g / p.column_tasks,
              p.panels * (g + 1) / p.column_tasks);
  });
}

}  // namespace ingot::kernels::matmul
