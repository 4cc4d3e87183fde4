// The "conv_rows" kernel: rows of windows are copied in their own type, block by block, and multiplied by the tiles of matmul: dot products or matrix registers of bfloat16, doubles; other half types
// are widened on the way. For each group its own panels of B.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "backend/cpu/kernels/conv/rows/run/cost.h"
#include "backend/cpu/kernels/conv/rows/run/tuning.h"
#include "backend/cpu/kernels/conv/rows/run/window_rows.h"
#include "backend/cpu/kernels/conv/run/problem.h"
#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "backend/cpu/kernels/matmul/run/cost.h"
#include "backend/cpu/kernels/matmul/run/pack.h"
#include "backend/cpu/kernels/matmul/run/row_end.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/kernels/run/vector_program.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

namespace conv {

namespace {

using ir::DType;

struct Plan : Problem {
  Plan(Problem p, const Constants& c, DType of, int64_t joined)
      : Problem(std::move(p)), type(of), joined(joined), rows(map, c.batch_rank, c.map.m_rank, static_cast<int64_t>(ir::size_of(of))) {}

  DType type;
  int64_t joined;  // groups that are computed as one: B has zeros where rows of one group meet columns of another
  WindowRows rows;
  Way way = {};
  int64_t batch = 1, panels = 0, panel_bytes = 0;  // of a group
  int64_t c_words = 1;  // floats in the memory of a sum
  int64_t row_bytes = 0, k_size = 1, block_rows = 1;
  int64_t row_tasks = 1, column_tasks = 1;
  int64_t in_place = 0;  // bytes from a row to the next; 0: rows are copied
  std::optional<VectorProgram> program;  // the epilogue in a tile; null: it runs on row segments of the sums
  size_t packed_bytes = 0, a_bytes = 0, row_copy_bytes = 0, c_bytes = 0, per_worker = 0;
};

// Groups of few columns fill a panel together: the tiles compute as much as for one of them, and rows are copied once for all. Returns how many; the problem is then that of the joined groups.
int64_t join_groups(Problem& p) {
  IndexMap::Index& channel = p.map.indices.back();
  if (p.group_axis == SIZE_MAX || channel.step != 1 || channel.extent != p.group_step() || p.map.leaves(channel)) return 1;
  int64_t joined = 1;
  for (int64_t g = 2; g <= p.groups && g * p.n <= tile_ops().columns; ++g) {
    if (p.groups % g == 0) joined = g;
  }
  IndexMap::Index& group = p.map.indices[p.group_axis];
  group.extent /= joined;
  group.step *= static_cast<uint64_t>(joined);
  channel.extent *= joined;
  p.groups /= joined;
  p.n *= joined;
  p.k *= joined;
  return joined;
}

// Tasks are blocks of rows, and groups of panels where rows are not enough.
void share(Plan& p, int64_t workers) {
  const Machine& machine = backend::cpu::machine();
  const double products = static_cast<double>(p.batch * p.groups * p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  if (workers == 1 || products < rows_tuning::least_wakes * machine.wake * machine.f32) return;
  const int64_t wanted = rows_tuning::tasks_of_worker * workers, each = p.batch * p.groups, tiles = p.way.tile_count(p.m);
  p.row_tasks = std::clamp<int64_t>((wanted + each - 1) / each, 1, std::max<int64_t>(1, tiles));
  if (each * p.row_tasks < workers) p.column_tasks = std::clamp<int64_t>((workers + each * p.row_tasks - 1) / (each * p.row_tasks), 1, std::max<int64_t>(1, p.panels));
}

Resolved resolve_rows(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const DType type = call.operands[0].dtype;
  if (!ir::is_float(type)) refuse("A is not of floats");
  Problem problem = checked(call, type);
  const ConvSizes sizes = sizes_of(problem.map, c.batch_rank, c.map.m_rank, problem.group_axis, problem.n);
  const int64_t joined = join_groups(problem);
  auto p = std::make_shared<Plan>(std::move(problem), c, type, joined);
  if (!p->rows.fits()) return {0, nullptr, never};
  const TileOps& ops = tile_ops();
  for (size_t d = 0; d < c.batch_rank; ++d) p->batch *= d == p->group_axis ? 1 : p->map.indices[d].extent;
  p->c_words = type == DType::f64 ? 2 : 1;
  p->way = way_of({type, type, type == DType::f64 ? DType::f64 : DType::f32, true, false, false, p->m});
  const auto size = static_cast<int64_t>(ir::size_of(type)), a_size = static_cast<int64_t>(ir::size_of(p->way.a));
  p->panels = (p->n + ops.columns - 1) / ops.columns;
  p->row_bytes = row_bytes(type);
  p->panel_bytes = panel_rows(type, p->k) * p->row_bytes;
  if (!c.packed) p->packed_bytes = padded(static_cast<size_t>(p->groups * p->panels * p->panel_bytes + matmul::tuning::read_ahead));
  const int64_t sums = std::max<int64_t>(1, (p->k + p->way.k_size(p->m) - 1) / p->way.k_size(p->m));
  p->k_size = ((p->k + sums - 1) / sums + 31) / 32 * 32;
  p->block_rows = std::min(p->m, p->way.max_rows());
  if (int64_t step; p->way.a == type && p->rows.in_place(step) && step > 0) p->in_place = step;
  const std::vector<int64_t>& to = p->bound.strides[c.body->stores[0].operand];
  if (type != DType::f64 && p->k > 0 && (to.back() == 1 || p->groups * p->n == 1)) p->program = vector_program(*c.body, p->bound);
  const int64_t workers = call.workers->count();
  share(*p, workers);
  if (p->in_place == 0) p->a_bytes = padded(static_cast<size_t>(p->block_rows * (p->k_size + rows_tuning::row_gap) * a_size));
  if (p->way.a != type) p->row_copy_bytes = padded(static_cast<size_t>(p->k_size * size));
  const int64_t of_task = (p->panels + p->column_tasks - 1) / p->column_tasks;
  p->c_bytes = padded(static_cast<size_t>((p->block_rows * (sums > 1 ? of_task : 1) + run_tuning::max_tile_rows) * ops.columns * 4 * p->c_words));
  p->per_worker = p->a_bytes + p->row_copy_bytes + p->c_bytes + padded(p->bound.scratch);
  const double nanoseconds = cost_of_copied_rows(sizes, type, {backend::cpu::machine(), ops.columns / 2, workers});
  return {p->packed_bytes + static_cast<size_t>(workers) * p->per_worker, std::move(p), nanoseconds};
}

// One worker's share: some rows of one batch, some panels of one group.
class Part {
 public:
  Part(const Call& call, const Constants& c, const Plan& p, int worker)
      : call_(call),
        c_(c),
        p_(p),
        ops_(tile_ops()),
        a_size_(static_cast<int64_t>(ir::size_of(p.way.a))),
        copy_(call.scratch + p.packed_bytes + static_cast<size_t>(worker) * p.per_worker),
        row_(copy_ + p.a_bytes),
        sums_(reinterpret_cast<float*>(row_ + p.row_copy_bytes)),
        evaluator_(p.bound, body(), row_ + p.row_copy_bytes + p.c_bytes) {}
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() {
    if (p_.way.tiles->release != nullptr) p_.way.tiles->release();
  }

  void run(int64_t batch, int64_t group, int64_t m0, int64_t m1, int64_t p0, int64_t p1) {
    image_ = p_.map.start;
    group_ = group;
    size_t domain = c_.domain_batch();
    for (size_t d = c_.batch_rank; d-- > 0;) {
      const IndexMap::Index& index = p_.map.indices[d];
      const int64_t at = d == p_.group_axis ? group : batch % index.extent;
      image_.move(index, at, p_.map.axes);
      if (d == p_.group_axis) continue;
      at_[--domain] = at;
      batch /= index.extent;
    }
    panels_ = p_.packed_bytes > 0 ? call_.scratch + group * p_.panels * p_.panel_bytes : call_.operands[1].data;
    const int64_t blocks = std::max<int64_t>(1, (m1 - m0 + p_.block_rows - 1) / p_.block_rows);
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t m = m0 + (m1 - m0) * i / blocks, rows = m0 + (m1 - m0) * (i + 1) / blocks - m;
      block(m, rows, p0, p1);
    }
  }

 private:
  std::span<const TensorRef> body() const { return body_operands(call_.operands); }

  // Columns [k0, k1) of rows in the form that tiles read.
  const std::byte* read(int64_t m, int64_t rows, int64_t k0, int64_t k1, int64_t& stride) {
    const std::byte* const a = call_.operands[0].data;
    const auto size = static_cast<int64_t>(ir::size_of(p_.type));
    if (p_.in_place != 0) {
      stride = p_.in_place;
      return a + (static_cast<int64_t>(image_.offset) + k0) * size + m * stride;
    }
    stride = (p_.k_size + rows_tuning::row_gap) * a_size_;
    if (p_.way.a == p_.type) {
      p_.rows.copy(a, image_, m, rows, k0, k1, copy_, stride);
      return copy_;
    }
    for (int64_t r = 0; r < rows; ++r) {
      p_.rows.copy(a, image_, m + r, 1, k0, k1, row_, 0);
      ops_.widen(p_.type, reinterpret_cast<float*>(copy_ + r * stride), reinterpret_cast<const uint16_t*>(row_), k1 - k0);
    }
    return copy_;
  }

  void block(int64_t m, int64_t rows, int64_t p0, int64_t p1) {
    at_[c_.domain_batch()] = m;
    if (p_.program) program_ = vector_end(*p_.program, p_.bound, body(), at_, p_.groups * p_.n);
    const int64_t tiles = p_.way.tile_count(rows);
    int64_t k0 = 0;
    do {
      const int64_t k1 = std::min(p_.k, k0 + p_.k_size);
      int64_t stride = 0;
      const std::byte* const a = read(m, rows, k0, k1, stride);
      for (int64_t p = p0; p < p1; ++p) {
        for (int64_t t = 0; t < tiles; ++t) {
          const int64_t r0 = p_.way.first_row(t, tiles, rows), r1 = p_.way.first_row(t + 1, tiles, rows);
          float* const c = sums_ + (p_.k <= p_.k_size ? 0 : ((p - p0) * rows + r0) * ops_.columns * p_.c_words);
          tile(a + r0 * stride, stride, m, r0, r1 - r0, p, k0, k1, c);
        }
      }
      k0 = k1;
    } while (k0 < p_.k);
  }

  void tile(const std::byte* a, int64_t stride, int64_t m, int64_t row, int64_t rows, int64_t panel, int64_t k0, int64_t k1, float* c) {
    const bool ends = k1 == p_.k;
    const int64_t column = panel * ops_.columns, count = std::min<int64_t>(ops_.columns, p_.n - column), first = group_ * p_.n + column;
    const std::byte* const b = panels_ + panel * p_.panel_bytes;
    TileEnd end;
    VectorEnd program;
    const Result to = result();
    if (p_.program && ends) {
      program = program_.from(row, first);
      program.columns = count;
      end.program = &program;
      if (count == ops_.columns && to.type != DType::f32) end.half = reinterpret_cast<uint16_t*>(to.at(row, first)), end.half_stride = to.stride, end.half_type = to.type;
    }
    int64_t k = k0;
    do {
      const int64_t some = std::min(k1 - k, p_.way.sum);
      const TileEnd* const last = end.program != nullptr && k + some == k1 ? &end : nullptr;
      p_.way.tiles->tile[rows](a + (k - k0) * a_size_, stride / a_size_, b + k / panel_depth(p_.type) * p_.row_bytes, some, c, ops_.columns, k == 0, last, {});
      k += some;
    } while (k < k1);
    if (!ends || end.half != nullptr) return;
    for (int64_t r = 0; r < rows; ++r) {
      const float* const sums = c + r * ops_.columns * p_.c_words;
      if (p_.program) {
        block_ops().store(to.type, to.at(row + r, first), 1, {sums, false}, count);
      } else {
        at_[c_.domain_batch()] = m + row + r;
        end_row(evaluator_, p_.bound, at_, first, count, sums, p_.c_words);
      }
    }
  }

  // The result from the block's first row on.
  struct Result {
    std::byte* data;
    DType type;
    int64_t stride;
    std::byte* at(int64_t row, int64_t column) const { return data + (row * stride + column) * static_cast<int64_t>(ir::size_of(type)); }
  };
  Result result() const {
    const size_t k = c_.body->stores[0].operand;
    const TensorRef& t = body()[k];
    const std::vector<int64_t>& strides = p_.bound.strides[k];
    Result out{t.data, t.dtype, strides[c_.domain_batch()]};
    if (!p_.program) return out;
    int64_t offset = 0;
    for (size_t i = 0; i <= c_.domain_batch(); ++i) offset += at_[i] * strides[i];
    out.data = out.at(0, offset);
    return out;
  }

  const Call& call_;
  const Constants& c_;
  const Plan& p_;
  const TileOps& ops_;
  const int64_t a_size_;
  std::byte *const copy_, *const row_;
  float* const sums_;
  Evaluator evaluator_;
  IndexMap::Position image_;
  int64_t group_ = 0;
  const std::byte* panels_ = nullptr;
  VectorEnd program_;
  int64_t at_[max_rank] = {};
};

// The panel of joined groups, from the first one on.
void pack_joined(const Call& call, const Constants& c, const Plan& p, int64_t first, std::byte* to) {
  const TensorRef& b = call.operands[1];
  const size_t size = ir::size_of(b.dtype);
  const int64_t channels = p.map.indices.back().extent / p.joined, k = p.k / p.joined, n = p.n / p.joined, depth = panel_depth(b.dtype), width = tile_ops().columns;
  std::memset(to, 0, static_cast<size_t>(p.panel_bytes));
  for (int64_t g = 0; g < p.joined; ++g) {
    const std::byte* const from = b.data + (first + g) * b.strides[p.group_axis] * static_cast<int64_t>(size);
    for (int64_t i = 0; i < k; ++i) {
      const int64_t row = (i / channels * p.joined + g) * channels + i % channels;
      std::byte* const out = to + ((row / depth * width + g * n) * depth + row % depth) * static_cast<int64_t>(size);
      for (int64_t j = 0; j < n; ++j) {
        std::memcpy(out + j * depth * static_cast<int64_t>(size), from + (i * b.strides[c.batch_rank] + j * b.strides[c.batch_rank + 1]) * static_cast<int64_t>(size), size);
      }
    }
  }
}

void pack(const Call& call, const Constants& c, const Plan& p) {
  const TensorRef& b = call.operands[1];
  const int64_t of_group = p.group_axis == SIZE_MAX ? 0 : b.strides[p.group_axis] * static_cast<int64_t>(ir::size_of(b.dtype));
  call.workers->run(p.groups * p.panels, [&](int64_t t, int) {
    const std::byte* const from = b.data + t / p.panels * of_group;
    std::byte* const to = call.scratch + t * p.panel_bytes;
    if (p.joined > 1) return pack_joined(call, c, p, t * p.joined, to);
    const int64_t row = b.strides[c.batch_rank], column = b.strides[c.batch_rank + 1], panel = t % p.panels;
    if (b.dtype == DType::bf16) return pack_pairs(from, row, column, p.k, p.n, panel, panel + 1, to);
    pack_own_type(from, b.dtype, row, column, p.k, p.n, panel, panel + 1, to);
  });
}

void run_rows(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Plan*>(call.prepared);
  if (p.m == 0 || p.n == 0 || p.batch * p.groups == 0) return;
  if (p.packed_bytes > 0) pack(call, c, p);
  const int64_t of_tile = p.way.tiles->rows, tiles = (p.m + of_tile - 1) / of_tile;
  call.workers->run(p.batch * p.groups * p.row_tasks * p.column_tasks, [&](int64_t t, int worker) {
    const int64_t g = t % p.column_tasks, r = t / p.column_tasks % p.row_tasks, of_batch = t / (p.column_tasks * p.row_tasks);
    Part part(call, c, p, worker);
    part.run(of_batch / p.groups, of_batch % p.groups, std::min(p.m, tiles * r / p.row_tasks * of_tile), std::min(p.m, tiles * (r + 1) / p.row_tasks * of_tile),
             p.panels * g / p.column_tasks, p.panels * (g + 1) / p.column_tasks);
  });
}

}  // namespace

double cost_of_copied_rows(const ConvSizes& s, ir::DType type, const Cpu& cpu) {
  const double lanes = static_cast<double>(cpu.lanes), vectors = 2 * std::ceil(static_cast<double>(s.n) / (2 * lanes)), k = static_cast<double>(s.k);
  const double rate = matmul::peak_of(cpu.machine, type);
  const double bytes = static_cast<double>(ir::size_of(type)), rows = static_cast<double>(std::max(1, INGOT_TABLES(tile_ops).of_lanes(cpu.lanes).f32.rows));
  // Groups that fill a panel together are copied, and end, once.
  const double joined = std::clamp(std::floor(2 * lanes / static_cast<double>(s.n)), 1.0, static_cast<double>(s.groups));
  const double copies = k / static_cast<double>(s.run) / joined * rows_tuning::copied_run + k * bytes / 64 * rows_tuning::copied_vector;
  const bool matrix = type == DType::bf16 && cpu.machine.bf16 > std::max(cpu.machine.f32, cpu.machine.dots);
  const double of_vector = type == DType::f64 ? rows_tuning::tile / rows + rows_tuning::vector_of_results : matrix ? rows_tuning::end_of_matrix : rows_tuning::end_of_half;
  const double groups = static_cast<double>(s.groups);
  // B of several groups is packed in each run: a panel for each group, or for those that are joined.
  const double packed = s.groups > 1 ? groups * k * vectors * lanes * rows_tuning::packed_element : 0;
  return (s.outputs * groups * (k * vectors * lanes / rate + cpu.cycles(copies + vectors / joined * of_vector)) + cpu.cycles(packed)) / static_cast<double>(cpu.threads) +
         cost_of_order(s, cpu);
}

}  // namespace conv

std::span<const RunKernel> conv_rows_cpu_kernels() {
  static constexpr RunKernel list[] = {{"conv_rows", conv::load, conv::resolve_rows, conv::run_rows}};
  return list;
}

}  // namespace ingot::kernels
