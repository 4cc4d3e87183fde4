// The "attention" kernel: softmax(scale Q K^T + mask) V without the score matrix.
//
// A task takes a block of queries of one batch element, iterates over the keys in blocks, and keeps the running maximum and sum per query (the online softmax
// of Milakov and Gimelshein, 2018). Both products use matmul's register tiles.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/kernels/attention/run/tuning.h"
#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "base/error.h"
#include "kernels/attention/run/attention_args.h"
#include "kernels/attention/run/filled.h"
#include "kernels/fused/run/fused_args.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

namespace {

namespace tuning = attention::tuning;
using ir::DType;

struct Constants {
  double scale;
  bool causal, filled;
  const TileOps::Tile* tiles;
  int batch_rank;
  std::shared_ptr<const Program> mask;
};

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  AttentionArgs args = parse_attention(bytes);
  if (operands <= attention_roles.size() + args.filled || sizes < 4) fail(Code::format, "an attention step has {} operands and {} sizes", operands, sizes);
  auto c = std::make_shared<Constants>();
  c->scale = args.scale;
  c->causal = args.causal;
  c->filled = args.filled;
  c->tiles = args.in_order ? tile_ops().f32.in_order : tile_ops().f32.tile;
  c->batch_rank = args.batch_rank;
  if (c->batch_rank + 2 > static_cast<int>(max_domain_rank) || (c->filled && c->batch_rank == 0)) fail(Code::format, "an attention step has batch rank {}", c->batch_rank);
  if (!args.mask.empty()) {
    c->mask = load_program(args.mask, operands - attention_roles.size() - args.filled - 1, sizes - 4, false);
    bool fits = c->mask->domain_rank == c->batch_rank + 2 && c->mask->row_rank == 1 && !c->mask->has_reductions;
    if (!fits) fail(Code::format, "an attention step's mask has another domain");
  } else if (operands != attention_roles.size() + args.filled + 1) {
    fail(Code::format, "an attention step without a mask has {} operands", operands);
  }
  return c;
}

struct Plan {
  int64_t s, t, d, e, batch;
  std::vector<int64_t> batch_dims;
  Bound mask;
  bool has_mask = false, mask_same_rows = false;
  bool f32;
  int64_t query_block, query_blocks;
  int64_t d_panels, e_width, t_width, s_row;  // s_row: floats between rows of scores; not a power of two, or rows would share few cache sets
  size_t q_bytes, k_bytes, v_bytes, s_bytes, o_bytes, state_bytes, per_worker;
};

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
size_t floats(int64_t n) { return static_cast<size_t>(round_up(n * 4, 64)); }

Resolved resolve(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  auto p = std::make_shared<Plan>();
  p->s = call.sizes[0];
  p->t = call.sizes[1];
  p->d = call.sizes[2];
  p->e = call.sizes[3];
  if (p->s < 0 || p->t < 0 || p->d < 0 || p->e < 0) fail(Code::format, "attention: a negative size");
  const TensorRef* parts[] = {&call.operands[0], &call.operands[1], &call.operands[2], &call.operands.back()};
  const int64_t want[4][2] = {{p->s, p->d}, {p->t, p->d}, {p->t, p->e}, {p->s, p->e}};
  p->batch = 1;
  for (int k = 0; k < 4; ++k) {
    const TensorRef& x = *parts[k];
    if (x.rank != c.batch_rank + 2 || x.dims[c.batch_rank] != want[k][0] || x.dims[c.batch_rank + 1] != want[k][1])
      fail(Code::format, "attention: operand {} does not have its sizes", k);
    if (x.dtype != parts[0]->dtype) fail(Code::format, "attention: operands of several dtypes");
    for (int b = 0; b < c.batch_rank; ++b) {
      if (x.dims[b] != parts[0]->dims[b]) fail(Code::format, "attention: operands of several batch sizes");
    }
  }
  for (int b = 0; b < c.batch_rank; ++b) {
    p->batch_dims.push_back(parts[0]->dims[b]);
    p->batch *= parts[0]->dims[b];
  }
  if (c.filled) check_filled("attention", call.operands[call.operands.size() - 2], parts[0]->dims[0]);
  DType dtype = parts[0]->dtype;
  p->f32 = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  if (!p->f32 && dtype != DType::f64) fail(Code::format, "attention: dtype {}", ir::name_of(dtype));
  if (c.mask) {
    const DType score = p->f32 ? DType::f32 : DType::f64;
    if (c.mask->memory.back() != score || (c.mask->has_accumulator && c.mask->accumulator != (p->f32 ? Class::f32 : Class::f64)))
      fail(Code::format, "attention: the mask of {} is not one of {} scores", ir::name_of(dtype), ir::name_of(score));
    std::vector<int64_t> domain = p->batch_dims;
    domain.push_back(p->s);
    domain.push_back(p->t);
    p->mask = bind_program(c.mask, mask_operands(call.operands, c.filled), call.sizes.subspan(4), domain, false);
    p->has_mask = true;
    // Is the mask the same for every query of a batch element (padding)?
    p->mask_same_rows = true;
    for (const auto& strides : p->mask.strides) p->mask_same_rows = p->mask_same_rows && strides[static_cast<size_t>(c.batch_rank)] == 0;
    for (const ProgramInstruction& i : p->mask.program->code) {
      if ((i.kind == Kind::index && i.axis == c.batch_rank) || !i.lower.empty()) p->mask_same_rows = false;
    }
  }
  int64_t workers = call.workers->count();
  const int64_t width = tile_ops().columns;
  p->query_block = std::min(std::max<int64_t>(p->s, 1), p->s >= tuning::rows_for_large ? tuning::large_query_block : tuning::query_block);
  if (p->batch < tuning::batches_of_worker * workers && p->s > tuning::divided_rows)
    p->query_block = std::min(p->query_block, std::max(tuning::least_rows, round_up((p->s + workers - 1) / workers, tuning::rows_of_tile)));
  p->query_blocks = p->s == 0 ? 0 : (p->s + p->query_block - 1) / p->query_block;
  int64_t keys = std::min(tuning::key_block, std::max<int64_t>(p->t, 1));
  p->t_width = round_up(keys, width);
  p->s_row = p->t_width + (p->t_width % 128 == 0 ? 16 : 0);
  p->e_width = round_up(std::max<int64_t>(p->e, 1), width);
  p->q_bytes = floats(p->query_block * std::max<int64_t>(p->d, 1));
  p->k_bytes = floats(p->t_width * p->d + tuning::read_beyond);
  p->v_bytes = floats(keys * p->e_width + tuning::read_beyond);
  p->s_bytes = floats(p->query_block * p->s_row);
  p->o_bytes = floats(p->query_block * p->e_width);
  p->state_bytes = floats(3 * p->query_block + p->t_width);
  p->per_worker =
      p->q_bytes + p->k_bytes + p->v_bytes + p->s_bytes + p->o_bytes + p->state_bytes + (p->has_mask ? (p->mask.scratch + 63) / 64 * 64 : 0) + (p->f32 ? 0 : floats(2 * p->t + 16));
  return {static_cast<size_t>(workers) * p->per_worker, p};
}

// Q, K, V and the result, operands 0 to 3, of one batch element.
class Operands {
 public:
  Operands(const Call& call, const Constants& c, const Plan& p) : call_(call), c_(c), p_(p) {}

  // `next`: the element after this one, whose first rows are prefetched.
  void go_to(int64_t batch, int64_t next) {
    if (batch != batch_) {
      locate(batch, at);
      for (size_t k = 0; k < 4; ++k) base_[k] = begin(operand(k), at);
      keys = c_.filled ? filled_keys(call_.operands[call_.operands.size() - 2], at[0], p_.t) : p_.t;
      first = c_.filled ? keys - p_.s : 0;
    }
    batch_ = batch;
    int64_t there[16];
    locate(next, there);
    for (size_t k = 0; k < 3; ++k) next_[k] = next == batch ? nullptr : begin(operand(k), there);
  }

  const TensorRef& operand(size_t k) const { return k == 3 ? call_.operands.back() : call_.operands[k]; }
  // A row of operand k: Q, K, V or the result.
  std::byte* address(size_t k, int64_t row) const {
    const TensorRef& x = operand(k);
    return base_[k] + row * x.strides[c_.batch_rank] * static_cast<int64_t>(ir::size_of(x.dtype));
  }
  void read(size_t k, int64_t row, float* to, int64_t n) const {
    const TensorRef& x = operand(k);
    block_ops().load(x.dtype, to, address(k, row), x.strides[c_.batch_rank + 1], n);
  }

  // Rows further down, and the first ones of the next batch element (tuning.h: ahead).
  void fetch(size_t k, int64_t row) const { prefetch(k, base_[k], row); }
  void fetch_of_next(size_t k, int64_t row) const { prefetch(k, next_[k], row); }

  // True if the products can read operand k in place: f32 with contiguous rows.
  bool direct(size_t k) const { return operand(k).dtype == DType::f32 && operand(k).strides[c_.batch_rank + 1] == 1; }
  float* floats_at(size_t k, int64_t row) const { return reinterpret_cast<float*>(address(k, row)); }

  int64_t at[16] = {};  // the batch element's coordinates; the mask's row is added
  int64_t keys = 0;     // of the batch element,
  int64_t first = 0;    // and the one that the first query stands at

 private:
  void locate(int64_t batch, int64_t* at) const {
    for (int b = c_.batch_rank - 1; b >= 0; --b) {
      at[b] = batch % p_.batch_dims[static_cast<size_t>(b)];
      batch /= p_.batch_dims[static_cast<size_t>(b)];
    }
  }
  std::byte* begin(const TensorRef& x, const int64_t* at) const {
    int64_t offset = 0;
    for (int b = 0; b < c_.batch_rank; ++b) offset += at[b] * x.strides[b];
    return x.data + offset * static_cast<int64_t>(ir::size_of(x.dtype));
  }
  void prefetch(size_t k, const std::byte* base, int64_t row) const {
    const TensorRef& x = call_.operands[k];
    if (base == nullptr || x.strides[x.rank - 1] != 1 || row >= x.dims[x.rank - 2]) return;
    const auto size = static_cast<int64_t>(ir::size_of(x.dtype));
    const std::byte* at = base + row * x.strides[x.rank - 2] * size;
    for (int64_t b = 0; b < x.dims[x.rank - 1] * size; b += 64) __builtin_prefetch(at + b, 0, 2);
  }

  const Call& call_;
  const Constants& c_;
  const Plan& p_;
  int64_t batch_ = -1;
  std::byte *base_[4] = {}, *next_[3] = {};
};

// float64: one query at a time.
void in_float64(const Call& call, const Constants& c, const Plan& p, Operands& x, int64_t s0, int64_t s1, std::byte* mask_scratch, double* scores) {
  const TensorRef& out = call.operands.back();
  auto element = [&](size_t k, int64_t row, int64_t column) { return *reinterpret_cast<const double*>(x.address(k, row) + column * x.operand(k).strides[c.batch_rank + 1] * 8); };
  for (int64_t s = s0; s < s1; ++s) {
    double m = -std::numeric_limits<double>::infinity(), total = 0;
    for (int64_t t = 0; t < x.keys; ++t) {
      double sum = 0;
      for (int64_t d = 0; d < p.d; ++d) sum += element(0, s, d) * element(1, t, d);
      sum *= c.scale;
      if (c.causal && t > x.first + s) sum = -std::numeric_limits<double>::infinity();
      scores[t] = sum;
    }
    if (p.has_mask) {
      Evaluator evaluator(p.mask, mask_operands(call.operands, c.filled), mask_scratch);
      x.at[c.batch_rank] = s;
      const auto step = static_cast<int64_t>(p.mask.block);
      for (int64_t t = 0; t < x.keys; t += step) evaluator.segment(x.at, t, std::min(step, x.keys - t), scores + t, scores + t);
    }
    for (int64_t t = 0; t < x.keys; ++t) m = std::isnan(scores[t]) ? scores[t] : std::max(m, scores[t]);
    for (int64_t t = 0; t < x.keys; ++t) total += scores[t] = m == -std::numeric_limits<double>::infinity() ? 0 : std::exp(scores[t] - m);
    for (int64_t e = 0; e < p.e; ++e) {
      double sum = 0;
      for (int64_t t = 0; t < x.keys; ++t) sum += scores[t] * element(2, t, e);
      *reinterpret_cast<double*>(x.address(3, s) + e * out.strides[c.batch_rank + 1] * 8) = total == 0 ? 0 : sum / total;
    }
  }
}

class Task {
 public:
  Task(const Call& call, const Constants& c, const Plan& p, int worker) : call_(call), c_(c), p_(p), x_(call, c, p), tiles_(tile_ops()), block_(block_ops()) {
    std::byte* at = call.scratch + static_cast<size_t>(worker) * p.per_worker;
    auto take = [&](size_t bytes) {
      auto* f = reinterpret_cast<float*>(at);
      at += bytes;
      return f;
    };
    q_ = take(p.q_bytes);
    k_ = take(p.k_bytes);
    v_ = take(p.v_bytes);
    s_ = take(p.s_bytes);
    o_ = take(p.o_bytes);
    largest_ = take(p.state_bytes);
    total_ = largest_ + p.query_block;
    keep_ = total_ + p.query_block;
    bias_ = keep_ + p.query_block;
    mask_scratch_ = at;
    if (p.has_mask) at += (p.mask.scratch + 63) / 64 * 64;
    wide_ = reinterpret_cast<double*>(at);
  }

  // Computes queries [s0, s1) of one batch element. `next`: the next element, whose first rows are prefetched.
  void run(int64_t batch, int64_t s0, int64_t s1, int64_t next) {
    x_.go_to(batch, next);
    if (!p_.f32) return in_float64(call_, c_, p_, x_, s0, s1, mask_scratch_, wide_);
    int64_t rows = s1 - s0;
    std::fill(largest_, largest_ + rows, -std::numeric_limits<float>::infinity());
    std::fill(total_, total_ + rows, 0.0f);
    for (int64_t i = 0; i < std::min(rows, tuning::max_ahead); ++i) x_.fetch_of_next(0, i);
    const auto by = static_cast<float>(c_.scale);
    if (x_.direct(0)) {
      block_.scale_rows(q_, p_.d, x_.floats_at(0, s0), x_.operand(0).strides[c_.batch_rank], &by, 0, rows, p_.d);
    } else {
      for (int64_t i = 0; i < rows; ++i) x_.read(0, s0 + i, q_ + i * p_.d, p_.d);
      block_.scale_rows(q_, p_.d, q_, p_.d, &by, 0, rows, p_.d);
    }
    bool started = false;
    for (int64_t t0 = 0; t0 < x_.keys; t0 += tuning::key_block) {
      if (c_.causal && t0 >= x_.first + s1) break;
      int64_t t1 = std::min(x_.keys, t0 + tuning::key_block);
      if (c_.causal) t1 = std::min(t1, x_.first + s1);
      keys(t0, t1);
      scores(rows, t1 - t0);
      apply_mask(s0, rows, t0, t1 - t0);
      softmax(s0, rows, t0, t1 - t0, started);
      values(t0, t1);
      product(rows, t1 - t0, !started);
      started = true;
    }
    const TensorRef& out = call_.operands.back();
    bool nothing = !started;  // a query without keys: its result is 0, whatever the values are
    for (int64_t i = 0; i < rows; ++i) {
      nothing = nothing || total_[i] == 0;
      total_[i] = 1 / total_[i];
    }
    if (x_.direct(3) && !nothing) {
      block_.scale_rows(x_.floats_at(3, s0), out.strides[c_.batch_rank], o_, p_.e_width, total_, 1, rows, p_.e);
      return;
    }
    for (int64_t i = 0; i < rows; ++i) {
      float* row = o_ + i * p_.e_width;
      if (!started || std::isinf(total_[i])) {
        std::fill(row, row + p_.e, 0.0f);
      } else {
        scale(row, total_[i], p_.e);
      }
      block_.store(out.dtype, x_.address(3, s0 + i), out.strides[c_.batch_rank + 1], {row, false}, p_.e);
    }
  }

 private:
  void scale(float* row, float by, int64_t n) const {
    const BlockArgument in[] = {{row, false}, {&by, true}};
    block_.map_f32(ir::Op::mul, row, in, n);
  }

  // Packs keys as panels: [keys / width][d][width].
  void keys(int64_t t0, int64_t t1) {
    const int64_t width = tiles_.columns;
    const TensorRef& x = call_.operands[1];
    const int64_t element = static_cast<int64_t>(ir::size_of(x.dtype)), column = x.strides[c_.batch_rank + 1];
    const bool straight = x_.direct(1);
    for (int64_t t = t0; t < t1; t += 4) {
      const int64_t count = std::min<int64_t>(4, t1 - t);
      float* panel = k_ + (t - t0) / width * width * p_.d + (t - t0) % width;
      for (int64_t i = 0; i < count; ++i) {
        if (t + i + tuning::ahead < t1) x_.fetch(1, t + i + tuning::ahead);
        if (t + i < tuning::max_ahead) x_.fetch_of_next(1, t + i);
      }
      if (straight && count == 4) {
        block_.transpose(panel, width, reinterpret_cast<const float*>(x_.address(1, t)), x.strides[c_.batch_rank], 4, p_.d);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        float line[256];
        for (int64_t d0 = 0; d0 < p_.d; d0 += 256) {
          const int64_t n = std::min<int64_t>(256, p_.d - d0);
          block_.load(x.dtype, line, x_.address(1, t + i) + d0 * column * element, column, n);
          block_.transpose(panel + d0 * width + i, width, line, n, 1, n);
        }
      }
    }
    for (int64_t t = t1 - t0; t < round_up(t1 - t0, width); ++t) {
      float* panel = k_ + t / width * width * p_.d + t % width;
      for (int64_t d = 0; d < p_.d; ++d) panel[d * width] = 0;
    }
  }

  // Packs values as panels: [e / width][keys][width].
  void values(int64_t t0, int64_t t1) {
    const int64_t width = tiles_.columns, count = t1 - t0;
    const TensorRef& x = call_.operands[2];
    const int64_t stride = x.strides[c_.batch_rank + 1], size = static_cast<int64_t>(ir::size_of(x.dtype));
    if (x_.direct(2) && p_.e % width == 0) {
      constexpr float one = 1;
      for (int64_t t = 0; t < std::min(t1, tuning::max_ahead); ++t) x_.fetch_of_next(2, t);
      for (int64_t e = 0; e < p_.e; e += width) block_.scale_rows(v_ + e * count, width, x_.floats_at(2, t0) + e, x.strides[c_.batch_rank], &one, 0, count, width);
      return;
    }
    for (int64_t t = t0; t < t1; ++t) {
      if (t + tuning::ahead < t1) x_.fetch(2, t + tuning::ahead);
      if (t < tuning::max_ahead) x_.fetch_of_next(2, t);
      const std::byte* row = x_.address(2, t);
      for (int64_t e = 0; e < p_.e_width; e += width) {
        float* to = v_ + e * count + (t - t0) * width;
        const int64_t n = std::clamp<int64_t>(p_.e - e, 0, width);
        block_.load(x.dtype, to, row + e * stride * size, stride, n);
        std::fill(to + n, to + width, 0.0f);
      }
    }
  }

  void tiles(const float* a, int64_t lda, const float* panels, int64_t k, float* c, int64_t ldc, int64_t rows, int64_t columns, bool first) {
    int64_t count = (rows + tiles_.f32.rows - 1) / tiles_.f32.rows;
    for (int64_t n = 0; n < columns; n += tiles_.columns) {
      for (int64_t t = 0; t < count; ++t) {
        int64_t r0 = rows * t / count, r1 = rows * (t + 1) / count;
        c_.tiles[r1 - r0](a + r0 * lda, lda, panels + n * k, k, c + r0 * ldc + n, ldc, first, nullptr, {});
      }
    }
  }
  void scores(int64_t rows, int64_t n) { tiles(q_, p_.d, k_, p_.d, s_, p_.s_row, rows, round_up(n, tiles_.columns), true); }
  void product(int64_t rows, int64_t n, bool first) { tiles(s_, p_.s_row, v_, n, o_, p_.e_width, rows, p_.e_width, first); }

  void apply_mask(int64_t s0, int64_t rows, int64_t t0, int64_t n) {
    if (!p_.has_mask || n == 0) return;
    Evaluator evaluator(p_.mask, mask_operands(call_.operands, c_.filled), mask_scratch_);
    auto step = static_cast<int64_t>(p_.mask.block);
    if (p_.mask_same_rows) {
      // Run the mask on scores of 0: the result is the bias for all scores.
      std::fill(bias_, bias_ + n, 0.0f);
      x_.at[c_.batch_rank] = s0;
      for (int64_t j = 0; j < n; j += step) evaluator.segment(x_.at, t0 + j, std::min(step, n - j), bias_ + j, bias_ + j);
      if (std::all_of(bias_, bias_ + n, [](float b) { return b == 0; })) return;
      for (int64_t i = 0; i < rows; ++i) {
        float* row = s_ + i * p_.s_row;
        const BlockArgument in[] = {{row, false}, {bias_, false}};
        block_.map_f32(ir::Op::add, row, in, n);
      }
      return;
    }
    for (int64_t i = 0; i < rows; ++i) {
      float* row = s_ + i * p_.s_row;
      x_.at[c_.batch_rank] = s0 + i;
      for (int64_t j = 0; j < n; j += step) evaluator.segment(x_.at, t0 + j, std::min(step, n - j), row + j, row + j);
    }
  }

  void softmax(int64_t s0, int64_t rows, int64_t t0, int64_t n, bool started) {
    if (!c_.causal) {
      block_.softmax_rows(s_, p_.s_row, rows, n, largest_, total_, keep_);
    } else {
      for (int64_t i = 0; i < rows; ++i) {
        float* row = s_ + i * p_.s_row;
        const int64_t seen = std::clamp<int64_t>(x_.first + s0 + i - t0 + 1, 0, n);
        block_.softmax_rows(row, p_.s_row, 1, seen, largest_ + i, total_ + i, keep_ + i);
        std::fill(row + seen, row + n, 0.0f);
      }
    }
    for (int64_t i = 0; started && i < rows; ++i) {
      if (keep_[i] != 1) scale(o_ + i * p_.e_width, keep_[i], p_.e_width);
    }
  }

  const Call& call_;
  const Constants& c_;
  const Plan& p_;
  Operands x_;
  const TileOps& tiles_;
  const BlockOps& block_;
  float *q_, *k_, *v_, *s_, *o_, *largest_, *total_, *keep_, *bias_;
  std::byte* mask_scratch_;
  double* wide_;
};

void run(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Plan*>(call.prepared);
  // Neighbouring tasks go to one worker: their rows share cache lines and pages.
  const int64_t tasks = p.batch * p.query_blocks, chunks = std::min<int64_t>(tasks, 8 * call.workers->count());
  call.workers->run(chunks, [&](int64_t chunk, int worker) {
    Task work(call, c, p, worker);
    const int64_t end = tasks * (chunk + 1) / chunks;
    for (int64_t task = tasks * chunk / chunks; task < end; ++task) {
      const int64_t block = task % p.query_blocks, batch = task / p.query_blocks;
      work.run(batch, block * p.query_block, std::min(p.s, (block + 1) * p.query_block), std::min(batch + 1, (end - 1) / p.query_blocks));
    }
  });
}

}  // namespace

std::span<const RunKernel> attention_cpu_kernels() {
  static constexpr RunKernel list[] = {{"attention", load, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
