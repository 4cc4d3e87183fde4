// The "ragged" and "ragged_pack" kernels: products of experts by the tiles of matmul. A task computes some panels of one expert for all of its rows, block by block, so that each panel is
// read once for a block of rows; the epilogue runs on row segments of a finished block.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/matmul/run/pack.h"
#include "backend/cpu/kernels/matmul/run/row_end.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/kernels/matmul/run/tuning.h"
#include "backend/cpu/kernels/ragged/run/ragged_args.h"
#include "backend/cpu/kernels/ragged/run/tuning.h"
#include "base/error.h"
#include "kernels/run/elements.h"

namespace ingot::kernels {

namespace {

using ragged::tuning::read_ahead, ragged::tuning::segment;

using ir::DType;

constexpr std::array roles{Role::a, Role::b, Role::row_ends};

template <class... A>
void require(bool good, fmt::format_string<A...> text, A&&... arguments) {
  if (!good) fail(Code::format, "ragged: {}", fmt::format(text, std::forward<A>(arguments)...));
}

int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

struct Constants {
  bool packed, in_order;
  std::shared_ptr<const Program> body;
};

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  const MatmulArgs args = parse_matmul(bytes);
  require(!args.map && args.batch_rank == 0 && operands > roles.size() && sizes >= 3, "{} operands and {} sizes", operands, sizes);
  auto c = std::make_shared<Constants>(Constants{args.packed, args.in_order, load_program(args.body, operands - roles.size(), sizes - 3)});
  require(c->body->domain_rank == 2 && c->body->row_rank == 1 && !c->body->has_reductions, "the body has another domain");
  return c;
}

struct Plan {
  Bound bound;
  int64_t m, n, k, experts, panels;
  bool f32 = true;  // the sums; else doubles, or integers in 64 bits
  DType panel = DType::f32;
  int64_t c_words = 1;  // floats in the memory of a sum
  int64_t held;  // panels whose sums are kept until the epilogue; of a B that is not packed, those that a task packs at a time
  int64_t column_tasks;  // of an expert
  int64_t a_bytes, c_bytes, b_bytes, per_worker;
  Way way(DType a, bool in_order, int64_t rows) const { return way_of({a, panel, f32 ? DType::f32 : panel, true, false, in_order, rows}); }
};

// Sums of K in blocks of even size.
int64_t k_size(const Way& way, int64_t k, int64_t rows, bool in_order) {
  const int64_t blocks = std::max<int64_t>(1, (k + way.k_size(rows) - 1) / way.k_size(rows)), unit = in_order && !way.matrix ? way.sum : 32;
  return std::max(unit, ((k + blocks - 1) / blocks + unit - 1) / unit * unit);
}

// The type of panels that a task packs itself.
DType packed_at_run(const TensorRef& a, const TensorRef& b, bool f32, Class sum) {
  const bool dots = tile_ops().bf16_dots.tile != nullptr || tile_ops().bf16_matrix.tile != nullptr;
  if (!f32) return sum == Class::f64 ? DType::f64 : DType::i64;
  return dots && a.dtype == DType::bf16 && b.dtype == DType::bf16 ? DType::bf16 : DType::f32;
}

Resolved resolve(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  auto p = std::make_shared<Plan>();
  const TensorRef &a = call.operands[0], &b = call.operands[1], &ends = call.operands[2];
  p->m = call.sizes[0], p->n = call.sizes[1], p->k = call.sizes[2];
  require(p->m >= 0 && p->n >= 0 && p->k >= 0, "a negative size");
  require(a.rank == 2 && a.dims[0] == p->m && a.dims[1] == p->k, "A does not have the sizes M and K");
  require(ends.rank == 1 && (ends.dtype == DType::i32 || ends.dtype == DType::i64), "the ends of rows are not one integer for each expert");
  p->experts = ends.dims[0];
  const TileOps& ops = tile_ops();
  p->panels = (p->n + ops.columns - 1) / ops.columns;
  p->f32 = half_or_float(a.dtype) && half_or_float(b.dtype) && (!c.body->has_accumulator || c.body->accumulator == Class::f32);
  const Class sum = c.body->has_accumulator ? c.body->accumulator : a.dtype == DType::f64 ? Class::f64 : ir::is_float(a.dtype) ? Class::f32 : Class::i64;
  require(p->f32 || (a.dtype == b.dtype && (sum == Class::f64 ? a.dtype == DType::f64 : sum == Class::i64 && ir::is_integer(a.dtype))), "{} times {} into another type",
          ir::name_of(a.dtype), ir::name_of(b.dtype));
  if (c.packed) {
    require(b.rank == 1 && holds_panels(b, b.dtype, p->experts * p->k, p->n) && p->k % panel_depth(b.dtype) == 0, "the packed operand does not fit");
  } else {
    require(b.rank == 3 && b.dims[0] == p->experts && b.dims[1] == p->k && b.dims[2] == p->n, "B does not have the sizes of experts, K and N");
  }
  p->panel = c.packed ? b.dtype : packed_at_run(a, b, p->f32, sum);
  p->c_words = p->f32 ? 1 : 2;
  p->bound = bind_program(c.body, call.operands.subspan(roles.size()), call.sizes.subspan(3), {p->m, p->n}, false);
  const int64_t panel_bytes = std::max<int64_t>(1, panel_rows(p->panel, p->k) * row_bytes(p->panel));
  p->held = std::max<int64_t>(1, segment / ops.columns);
  if (!c.packed) p->held = std::clamp<int64_t>(matmul::tuning::packed_for_narrow / panel_bytes, 1, p->held);
  int64_t rows = 0;
  p->a_bytes = 0;
  for (int64_t of : {int64_t{1}, p->m}) {  // few rows, and many
    const Way way = p->way(a.dtype, c.in_order, of);
    for (int64_t in_block : {std::min(p->m, way.max_narrow_rows), std::min(p->m, way.max_rows())}) {
      rows = std::max(rows, in_block);
      p->a_bytes = std::max(p->a_bytes, padded((in_block + 16) * (k_size(way, p->k, in_block, c.in_order) + 16) * std::max<int64_t>(4, static_cast<int64_t>(ir::size_of(way.a)))));
    }
  }
  p->c_bytes = padded((rows + 16) * p->held * ops.columns * 4 * p->c_words);
  p->b_bytes = c.packed ? 0 : padded(p->held * panel_bytes + read_ahead);
  p->per_worker = padded(p->a_bytes + p->c_bytes + p->b_bytes + static_cast<int64_t>(p->bound.scratch));
  // Of few tokens all rows may be those of a few experts: each expert's columns are for all workers.
  const int64_t workers = call.workers->count();
  p->column_tasks = workers == 1 ? 1 : std::clamp<int64_t>(p->panels / ragged::tuning::least_panels, 1, 2 * workers);
  return {static_cast<size_t>(workers * p->per_worker), p};
}

// One worker's share: panels [p0, p1) of an expert, for its rows.
class Part {
 public:
  Part(const Call& call, const Constants& c, const Plan& p, int worker)
      : call_(call),
        c_(c),
        p_(p),
        ops_(tile_ops()),
        copy_(call.scratch + worker * p.per_worker),
        sums_(reinterpret_cast<float*>(copy_ + p.a_bytes)),
        packed_(copy_ + p.a_bytes + p.c_bytes),
        evaluator_(p.bound, call.operands.subspan(roles.size()), packed_ + p.b_bytes) {}

  void run(int64_t expert, int64_t m0, int64_t m1, int64_t p0, int64_t p1) {
    way_ = p_.way(call_.operands[0].dtype, c_.in_order, m1 - m0);
    a_size_ = static_cast<int64_t>(ir::size_of(way_.a));
    k_size_ = k_size(way_, p_.k, m1 - m0, c_.in_order);
    for (int64_t q = p0; q < p1; q += p_.held) {
      const int64_t q1 = std::min(p1, q + p_.held);
      find_panels(expert, q, q1);
      const int64_t blocks = way_.blocks(m1 - m0);
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t m = m0 + (m1 - m0) * i / blocks, rows = m0 + (m1 - m0) * (i + 1) / blocks - m;
        multiply(m, rows, q, q1);
        finish(m, rows, q, q1);
      }
    }
    if (way_.tiles->release != nullptr) way_.tiles->release();
  }
  // Rows of no expert: their sums are 0.
  void run_nobodys(int64_t m0, int64_t m1, int64_t p0, int64_t p1) {
    std::fill_n(sums_, p_.held * ops_.columns * p_.c_words, 0.0f);
    for (int64_t m = m0; m < m1; ++m) {
      for (int64_t q = p0; q < p1; q += p_.held) finish(m, 1, q, std::min(p1, q + p_.held));
    }
  }

 private:
  void find_panels(int64_t expert, int64_t q, int64_t q1) {
    const TensorRef& b = call_.operands[1];
    const int64_t panel = panel_rows(p_.panel, p_.k) * row_bytes(p_.panel);
    if (c_.packed) {
      panels_ = b.data + (expert * p_.panels + q) * panel;
      return;
    }
    const std::byte* from = b.data + expert * b.strides[0] * static_cast<int64_t>(ir::size_of(b.dtype));
    panels_ = packed_;
    if (p_.panel == DType::bf16) return pack_pairs(from, b.strides[1], b.strides[2], p_.k, p_.n, q, q1, packed_);
    pack_panels(from, b.dtype, b.strides[1], b.strides[2], p_.k, p_.n, q, q1, packed_);
  }
  // Row k of a panel, counted from the first one that was found.
  const std::byte* panel(int64_t p, int64_t k) const { return panels_ + (p * panel_rows(p_.panel, p_.k) + k / panel_depth(p_.panel)) * row_bytes(p_.panel); }

  // Rows [m, m + rows), columns [k0, k1) of A in the form that tiles read: in place if possible.
  const std::byte* read(int64_t m, int64_t rows, int64_t k0, int64_t k1, int64_t& stride) const {
    const TensorRef& a = call_.operands[0];
    const auto size = static_cast<int64_t>(ir::size_of(a.dtype));
    const std::byte* from = a.data + (m * a.strides[0] + k0 * a.strides[1]) * size;
    if (a.dtype == way_.a && a.strides[1] == 1) {
      stride = a.strides[0] * size;
      return from;
    }
    stride = (k_size_ + 16) * a_size_;
    for (int64_t r = 0; r < rows; ++r) {
      std::byte* const to = copy_ + r * stride;
      const std::byte* const row = from + r * a.strides[0] * size;
      if (way_.a == DType::bf16) {
        for (int64_t k = 0; k < k1 - k0; ++k) std::memcpy(to + k * size, row + k * a.strides[1] * size, sizeof(uint16_t));
      } else if (p_.f32 && a.dtype != DType::f32 && a.strides[1] == 1) {
        ops_.widen(a.dtype, reinterpret_cast<float*>(to), reinterpret_cast<const uint16_t*>(row), k1 - k0);
      } else if (p_.panel == DType::i64) {
        load_i64(a.dtype, reinterpret_cast<int64_t*>(to), row, a.strides[1], k1 - k0);
      } else {
        block_ops().load(a.dtype, to, row, a.strides[1], k1 - k0);
      }
    }
    return copy_;
  }

  // The sums of a block of rows for panels [q, q1), row by row.
  void multiply(int64_t m, int64_t rows, int64_t q, int64_t q1) {
    const TileOps::Tile* const tile = c_.in_order ? way_.tiles->in_order : way_.tiles->tile;
    const int64_t tiles = way_.tile_count(rows), ldc = (q1 - q) * ops_.columns;
    if (p_.k == 0) std::fill_n(sums_, rows * ldc * p_.c_words, 0.0f);
    for (int64_t k0 = 0; k0 < p_.k; k0 += k_size_) {
      const int64_t k1 = std::min(p_.k, k0 + k_size_);
      int64_t stride;
      const std::byte* const a = read(m, rows, k0, k1, stride);
      for (int64_t p = 0; p < q1 - q; ++p) {
        Ahead ahead;
        if (tiles > 1) ahead = {panel(p + 1, k0), static_cast<int>(std::bit_ceil(static_cast<uint64_t>((row_bytes(p_.panel) / 16 + tiles - 1) / tiles)))};
        for (int64_t t = 0; t < tiles; ++t) {
          const int64_t r0 = way_.first_row(t, tiles, rows), r1 = way_.first_row(t + 1, tiles, rows);
          for (int64_t k = k0; k < k1; k += way_.sum) {
            const int64_t count = std::min(k1 - k, way_.sum);
            tile[r1 - r0](a + r0 * stride + (k - k0) * a_size_, stride / a_size_, panel(p, k), count, sums_ + (r0 * ldc + p * ops_.columns) * p_.c_words, ldc, k == 0, nullptr,
                          ahead);
            ahead.next += 64 * ahead.lines * (count / panel_depth(p_.panel) / 4);
          }
        }
      }
    }
  }

  // The epilogue of a block of sums.
  void finish(int64_t m, int64_t rows, int64_t q, int64_t q1) {
    const int64_t n = q * ops_.columns, columns = std::min(q1 * ops_.columns, p_.n) - n, ldc = (q1 - q) * ops_.columns;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at[2] = {m + r, 0};
      end_row(evaluator_, p_.bound, at, n, columns, sums_ + r * ldc * p_.c_words, p_.c_words);
    }
  }

  const Call& call_;
  const Constants& c_;
  const Plan& p_;
  const TileOps& ops_;
  std::byte* const copy_;  // of A's rows, where tiles cannot read them
  float* const sums_;
  std::byte* const packed_;
  Evaluator evaluator_;
  Way way_ = {};
  int64_t a_size_ = 4, k_size_ = 0;
  const std::byte* panels_ = nullptr;
};

void run(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Plan*>(call.prepared);
  const TensorRef& ends = call.operands[2];
  if (p.m == 0 || p.n == 0) return;
  auto end_of = [&](int64_t expert) {
    const std::byte* const at = ends.data + expert * ends.strides[0] * static_cast<int64_t>(ir::size_of(ends.dtype));
    int64_t end;
    if (ends.dtype == DType::i32) {
      int32_t narrow;
      std::memcpy(&narrow, at, sizeof narrow);
      end = narrow;
    } else {
      std::memcpy(&end, at, sizeof end);
    }
    return std::clamp<int64_t>(end, 0, p.m);
  };
  call.workers->run((p.experts + 1) * p.column_tasks, [&](int64_t t, int worker) {
    const int64_t expert = t / p.column_tasks, g = t % p.column_tasks;
    const int64_t m0 = expert == 0 ? 0 : end_of(expert - 1), m1 = expert == p.experts ? p.m : end_of(expert);
    if (m0 >= m1) return;
    const int64_t p0 = p.panels * g / p.column_tasks, p1 = p.panels * (g + 1) / p.column_tasks;
    Part part(call, c, p, worker);
    expert == p.experts ? part.run_nobodys(m0, m1, p0, p1) : part.run(expert, m0, m1, p0, p1);
  });
}

std::shared_ptr<const void> load_pack(std::span<const std::byte>, size_t operands, size_t sizes) {
  require(operands == 2 && (sizes == 2 || sizes == 3), "a packing step has {} operands and {} sizes", operands, sizes);
  return nullptr;
}

Resolved resolve_pack(const Call& call) {
  const TensorRef &b = call.operands[0], &to = call.operands[1];
  const bool known = b.rank == static_cast<int>(call.sizes.size()) && std::equal(call.sizes.begin(), call.sizes.end(), b.dims);
  require(known && to.dtype == b.dtype && b.dims[b.rank - 2] % panel_depth(b.dtype) == 0 && holds_panels(to, to.dtype, numel(b, 1), b.dims[b.rank - 1]),
          "what is packed does not fit");
  return {};
}

void run_pack(const Call& call) {
  const TensorRef &b = call.operands[0], &to = call.operands[1];
  const int64_t k = b.dims[b.rank - 2], n = b.dims[b.rank - 1], experts = numel(b, 2), panels = (n + tile_ops().columns - 1) / tile_ops().columns;
  const int64_t panel = panel_rows(to.dtype, k) * row_bytes(to.dtype), size = static_cast<int64_t>(ir::size_of(b.dtype)), step = b.rank == 3 ? b.strides[0] * size : 0;
  call.workers->run(experts * panels, [&](int64_t t, int) {
    pack_own_type(b.data + t / panels * step, b.dtype, b.strides[b.rank - 2], b.strides[b.rank - 1], k, n, t % panels, t % panels + 1, to.data + t * panel);
  });
  std::fill(to.data + experts * panels * panel, to.data + to.dims[0] * size, std::byte{});  // what tiles may read ahead: equal weights are equal in each byte
}

}  // namespace

std::span<const RunKernel> ragged_cpu_kernels() {
  static const RunKernel list[] = {{"ragged", load, resolve, run}, {"ragged_pack", load_pack, resolve_pack, run_pack}};
  return list;
}

}  // namespace ingot::kernels
