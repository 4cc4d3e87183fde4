// Attention by blocks of queries: a task takes a block of queries of one batch element, iterates over the keys in blocks, and keeps the running maximum and sum per query (the online softmax
// of Milakov and Gimelshein, 2018). Both products use matmul's register tiles. Scores are floats, or doubles for operands of double.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels/attention/run/problem.h"
#include "backend/cpu/kernels/attention/run/tuning.h"
#include "backend/cpu/kernels/matmul/run/tile.h"

namespace ingot::kernels::attention::by_blocks {

using ir::DType;

struct Plan {
  Problem problem;
  int64_t query_block, query_blocks;
  int64_t e_width, t_width, s_row;  // s_row: elements between rows of scores; not a power of two, or rows would share few cache sets
  size_t q_bytes, k_bytes, v_bytes, s_bytes, o_bytes, state_bytes, per_worker;
};

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// RunKernel::resolve; the state is a Plan.
Resolved resolve(const Call&);

// T: the type of scores. Rows: Operands, or PagedOperands.
template <class T, class Rows>
class Task {
 public:
  Task(const Call& call, const Constants& c, const Plan& p, int worker)
      : call_(call), c_(c), plan_(p), p_(p.problem), x_(call, c, p_), block_(block_ops()), columns_(tile_ops().columns), tiles_(sizeof(T) == 8 ? tile_ops().f64 : tile_ops().f32) {
    std::byte* at = call.scratch + static_cast<size_t>(worker) * p.per_worker;
    auto take = [&](size_t bytes) {
      auto* numbers = reinterpret_cast<T*>(at);
      at += bytes;
      return numbers;
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
    scales_ = bias_ + p.t_width;
    mask_scratch_ = at;
  }

  // Computes queries [s0, s1) of one batch element. `next`: the next element, whose first rows are prefetched.
  void run(int64_t batch, int64_t s0, int64_t s1, int64_t next) {
    x_.go_to(batch, next);
    int64_t rows = s1 - s0;
    std::fill(largest_, largest_ + rows, -std::numeric_limits<T>::infinity());
    std::fill(total_, total_ + rows, T(0));
    for (int64_t i = 0; i < std::min(rows, tuning::max_ahead); ++i) x_.fetch_of_next(0, i);
    const auto by = static_cast<T>(c_.scale);
    if (direct(0)) {
      Scores<T>::scale_rows(q_, p_.d, at(0, s0), x_.row_stride(0), &by, 0, rows, p_.d);
    } else {
      for (int64_t i = 0; i < rows; ++i) x_.read(0, s0 + i, q_ + i * p_.d, p_.d);
      Scores<T>::scale_rows(q_, p_.d, q_, p_.d, &by, 0, rows, p_.d);
    }
    bool started = false;
    for (int64_t t0 = 0; t0 < x_.keys; t0 += tuning::key_block) {
      if (c_.causal && t0 >= x_.first + s1) break;
      int64_t t1 = std::min(x_.keys, t0 + tuning::key_block);
      if (c_.causal) t1 = std::min(t1, x_.first + s1);
      keys(t0, t1);
      scores(rows, t1 - t0);
      by_scales(1, rows, t0, t1 - t0);
      apply_mask(s0, rows, t0, t1 - t0);
      softmax(s0, rows, t0, t1 - t0, started);
      by_scales(2, rows, t0, t1 - t0);
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
    if (direct(3) && !nothing) return Scores<T>::scale_rows(at(3, s0), x_.row_stride(3), o_, plan_.e_width, total_, 1, rows, p_.e);
    for (int64_t i = 0; i < rows; ++i) {
      T* row = o_ + i * plan_.e_width;
      if (!started || std::isinf(total_[i])) {
        std::fill(row, row + p_.e, T(0));
      } else {
        scale(row, total_[i], p_.e);
      }
      block_.store(out.dtype, x_.address(3, s0 + i), x_.column_stride(3), {row, false}, p_.e);
    }
  }

 private:
  // True if the products can read operand k in place: of their own type, with contiguous rows.
  bool direct(size_t k) const { return ir::size_of(x_.operand(k).dtype) == sizeof(T) && x_.column_stride(k) == 1; }
  T* at(size_t k, int64_t row) const { return reinterpret_cast<T*>(x_.address(k, row)); }
  static void scale(T* row, T by, int64_t n) { Scores<T>::scale_rows(row, n, row, n, &by, 0, 1, n); }

  // Packs keys as panels: [keys / width][d][width].
  void keys(int64_t t0, int64_t t1) {
    const int64_t width = columns_;
    const TensorRef& x = call_.operands[1];
    const int64_t element = static_cast<int64_t>(ir::size_of(x.dtype)), column = x_.column_stride(1);
    const bool straight = direct(1);
    for (int64_t t = t0; t < t1; t += tuning::rows_of_group) {
      const int64_t count = std::min(tuning::rows_of_group, t1 - t);
      T* panel = k_ + (t - t0) / width * width * p_.d + (t - t0) % width;
      for (int64_t i = 0; i < count; ++i) {
        if (t + i + tuning::ahead < t1) x_.fetch(1, t + i + tuning::ahead);
        if (t + i < tuning::max_ahead) x_.fetch_of_next(1, t + i);
      }
      if (straight && count == tuning::rows_of_group) {
        block_.transpose_elements(sizeof(T), panel, width, x_.address(1, t), x_.row_stride(1), count, p_.d);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        T line[tuning::line_elements];
        for (int64_t d0 = 0; d0 < p_.d; d0 += tuning::line_elements) {
          const int64_t n = std::min<int64_t>(tuning::line_elements, p_.d - d0);
          convert(x.dtype, line, x_.address(1, t + i) + d0 * column * element, column, n);
          block_.transpose_elements(sizeof(T), panel + d0 * width + i, width, line, n, 1, n);
        }
      }
    }
    for (int64_t t = t1 - t0; t < round_up(t1 - t0, width); ++t) {
      T* panel = k_ + t / width * width * p_.d + t % width;
      for (int64_t d = 0; d < p_.d; ++d) panel[d * width] = 0;
    }
  }

  // Packs values as panels: [e / width][keys][width].
  void values(int64_t t0, int64_t t1) {
    const int64_t width = columns_, count = t1 - t0;
    const TensorRef& x = call_.operands[2];
    const int64_t stride = x_.column_stride(2), size = static_cast<int64_t>(ir::size_of(x.dtype));
    if (sizeof(T) == 4 && direct(2) && p_.e % width == 0) {
      constexpr T one = 1;
      for (int64_t t = 0; t < std::min(t1, tuning::max_ahead); ++t) x_.fetch_of_next(2, t);
      for (int64_t t = t0, n = 0; t < t1; t += n) {
        n = x_.together(t, t1);
        for (int64_t e = 0; e < p_.e; e += width) Scores<T>::scale_rows(v_ + e * count + (t - t0) * width, width, at(2, t) + e, x_.row_stride(2), &one, 0, n, width);
      }
      return;
    }
    for (int64_t t = t0; t < t1; ++t) {
      if (t + tuning::ahead < t1) x_.fetch(2, t + tuning::ahead);
      if (t < tuning::max_ahead) x_.fetch_of_next(2, t);
      const std::byte* row = x_.address(2, t);
      for (int64_t e = 0; e < plan_.e_width; e += width) {
        T* to = v_ + e * count + (t - t0) * width;
        const int64_t n = std::clamp<int64_t>(p_.e - e, 0, width);
        convert(x.dtype, to, row + e * stride * size, stride, n);
        std::fill(to + n, to + width, T(0));
      }
    }
  }

  // Tiles know the type of their sums; C is a pointer to floats only by its type (TileOps).
  void tiles(const T* a, int64_t lda, const T* panels, int64_t k, T* c, int64_t ldc, int64_t rows, int64_t columns, bool first) {
    const TileOps::Tile* by_rows = c_.in_order ? tiles_.in_order : tiles_.tile;
    int64_t count = (rows + tiles_.rows - 1) / tiles_.rows;
    for (int64_t n = 0; n < columns; n += columns_) {
      for (int64_t t = 0; t < count; ++t) {
        int64_t r0 = rows * t / count, r1 = rows * (t + 1) / count;
        by_rows[r1 - r0](a + r0 * lda, lda, panels + n * k, k, reinterpret_cast<float*>(c + r0 * ldc + n), ldc, first, nullptr, {});
      }
    }
  }
  void scores(int64_t rows, int64_t n) { tiles(q_, p_.d, k_, p_.d, s_, plan_.s_row, rows, round_up(n, columns_), true); }
  void product(int64_t rows, int64_t n, bool first) { tiles(s_, plan_.s_row, v_, n, o_, plan_.e_width, rows, plan_.e_width, first); }

  // A row of keys is its numbers times its scale, so a score is: and so is a weight, of a row of values.
  void by_scales(size_t k, int64_t rows, int64_t t0, int64_t n) {
    if (!c_.scaled) return;
    x_.read_scales(k, t0, scales_, n);
    for (int64_t i = 0; i < rows; ++i) Scores<T>::apply(ir::Op::mul, s_ + i * plan_.s_row, scales_, n);
  }

  // Elements of a row of keys or values as numbers; an integer is one.
  void convert(DType type, T* to, const std::byte* from, int64_t stride, int64_t n) {
    if (type != DType::i8) return block_.load(type, to, from, stride, n);
    std::byte bytes[tuning::line_elements];
    for (int64_t done = 0, count = 0; done < n; done += count) {
      count = std::min<int64_t>(n - done, tuning::line_elements);
      block_.load(type, bytes, from + done * stride, stride, count);
      block_.cast(Class::i8, sizeof(T) == 8 ? DType::f64 : DType::f32, to + done, {bytes, false}, count);
    }
  }

  void apply_mask(int64_t s0, int64_t rows, int64_t t0, int64_t n) {
    if (!p_.has_mask || n == 0) return;
    Evaluator evaluator(p_.mask, mask_operands(call_.operands, c_.optional()), mask_scratch_);
    auto step = static_cast<int64_t>(p_.mask.block);
    if (p_.mask_same_rows) {
      // Run the mask on scores of 0: the result is the bias for all scores.
      std::fill(bias_, bias_ + n, T(0));
      x_.at[c_.batch_rank] = s0;
      for (int64_t j = 0; j < n; j += step) evaluator.segment(x_.at, t0 + j, std::min(step, n - j), bias_ + j, bias_ + j);
      if (std::all_of(bias_, bias_ + n, [](T b) { return b == 0; })) return;
      for (int64_t i = 0; i < rows; ++i) Scores<T>::apply(ir::Op::add, s_ + i * plan_.s_row, bias_, n);
      return;
    }
    for (int64_t i = 0; i < rows; ++i) {
      T* row = s_ + i * plan_.s_row;
      x_.at[c_.batch_rank] = s0 + i;
      for (int64_t j = 0; j < n; j += step) evaluator.segment(x_.at, t0 + j, std::min(step, n - j), row + j, row + j);
    }
  }

  void softmax(int64_t s0, int64_t rows, int64_t t0, int64_t n, bool started) {
    if (!c_.causal) {
      const int64_t summed = c_.in_order ? round_up(n, tuning::summed_group) : n;
      for (int64_t i = 0; summed > n && i < rows; ++i) std::fill(s_ + i * plan_.s_row + n, s_ + i * plan_.s_row + summed, -std::numeric_limits<T>::infinity());
      Scores<T>::softmax_rows(s_, plan_.s_row, rows, summed, largest_, total_, keep_);
    } else {
      for (int64_t i = 0; i < rows; ++i) {
        T* row = s_ + i * plan_.s_row;
        const int64_t seen = std::clamp<int64_t>(x_.first + s0 + i - t0 + 1, 0, n);
        Scores<T>::softmax_rows(row, plan_.s_row, 1, seen, largest_ + i, total_ + i, keep_ + i);
        std::fill(row + seen, row + n, T(0));
      }
    }
    for (int64_t i = 0; started && i < rows; ++i) {
      if (keep_[i] != 1) scale(o_ + i * plan_.e_width, keep_[i], p_.e);
    }
  }

  const Call& call_;
  const Constants& c_;
  const Plan& plan_;
  const Problem& p_;
  Rows x_;
  const BlockOps& block_;
  const int64_t columns_;
  const TileOps::Tiles& tiles_;
  T *q_, *k_, *v_, *s_, *o_, *largest_, *total_, *keep_, *bias_, *scales_;
  std::byte* mask_scratch_;
};

template <class T, class Rows>
void run_tasks(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Plan*>(call.prepared);
  // Neighbouring tasks go to one worker: their rows share cache lines and pages.
  const int64_t tasks = p.problem.batch * p.query_blocks, chunks = std::min(tasks, (c.filled ? tuning::tasks_of_uneven : tuning::tasks_of_worker) * call.workers->count());
  call.workers->run(chunks, [&](int64_t chunk, int worker) {
    Task<T, Rows> work(call, c, p, worker);
    const int64_t end = tasks * (chunk + 1) / chunks;
    for (int64_t task = tasks * chunk / chunks; task < end; ++task) {
      const int64_t block = task % p.query_blocks, batch = task / p.query_blocks;
      work.run(batch, block * p.query_block, std::min(p.problem.s, (block + 1) * p.query_block), std::min(batch + 1, (end - 1) / p.query_blocks));
    }
  });
}

}  // namespace ingot::kernels::attention::by_blocks
