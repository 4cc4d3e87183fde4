// Attention for few queries. Each query multiplies keys and values where they are, while by_blocks.h copies them into panels first, which pays for many queries.
#pragma once
#include <algorithm>
#include <limits>

#include "backend/cpu/kernels/attention/run/problem.h"
#include "backend/cpu/kernels/attention_queries/run/tile_queries.h"
#include "backend/cpu/kernels/attention_queries/run/tuning.h"

namespace ingot::kernels::attention_queries {

using attention::Constants;
using attention::Problem;
using attention::Scores;

struct Plan {
  Problem problem;
  size_t per_worker;
  // Elements of a worker's scratch: a query, scores, scales (as many), sums.
  int64_t query, scores, sums;
};

// RunKernel::resolve; the state is a Plan.
Resolved resolve(const Call&);
const QueryOps& query_ops();

// T: the type of scores. Rows: Operands, or PagedOperands.
template <class T, class Rows>
class Task {
 public:
  Task(const Call& call, const Constants& c, const Plan& p, int worker) : call_(call), c_(c), p_(p.problem), x_(call, c, p_) {
    auto* at = reinterpret_cast<T*>(call.scratch + static_cast<size_t>(worker) * p.per_worker);
    query_ = at;
    scores_ = query_ + p.query;
    scales_ = scores_ + p.scores;
    sums_ = scales_ + p.scores;
    mask_scratch_ = reinterpret_cast<std::byte*>(sums_ + p.sums);
  }

  void run(int64_t batch, int64_t s) {
    x_.go_to(batch, batch);
    const auto by = static_cast<T>(c_.scale);
    x_.read(0, s, query_, p_.d);
    Scores<T>::scale_rows(query_, p_.d, query_, p_.d, &by, 0, 1, p_.d);
    T largest = -std::numeric_limits<T>::infinity(), total = 0, keep = 0;
    std::fill(sums_, sums_ + p_.e, T(0));
    const int64_t keys = c_.causal ? std::clamp<int64_t>(x_.first + s + 1, 0, x_.keys) : x_.keys;
    for (int64_t t0 = 0; t0 < keys; t0 += tuning::key_block) {
      const int64_t n = std::min(keys - t0, tuning::key_block);
      in_pieces(t0, n, [&](int64_t j, int64_t count) { query_ops().scores(rows(1, t0 + j, count), scores_ + j, query_, p_.d); });
      by_scales(1, t0, n);
      apply_mask(s, t0, n);
      Scores<T>::softmax_rows(scores_, n, 1, n, &largest, &total, &keep);
      by_scales(2, t0, n);
      in_pieces(t0, n, [&](int64_t j, int64_t count) { query_ops().sums(rows(2, t0 + j, count), sums_, scores_ + j, j == 0 ? static_cast<double>(keep) : 1.0, p_.e); });
    }
    const T share = 1 / total;
    if (total == 0) {  // a query without keys: its result is 0, whatever the values are
      std::fill(sums_, sums_ + p_.e, T(0));
    } else {
      Scores<T>::scale_rows(sums_, p_.e, sums_, p_.e, &share, 0, 1, p_.e);
    }
    block_ops().store(p_.type, x_.address(3, s), x_.column_stride(3), {sums_, false}, p_.e);
  }

 private:
  KeyRows rows(size_t operand, int64_t first, int64_t count) const { return {p_.key_type, x_.address(operand, first), x_.row_stride(operand), count}; }

  // Calls f(j, count) for the keys from t0 + j on that lie one after the other.
  template <class F>
  void in_pieces(int64_t t0, int64_t n, F f) const {
    for (int64_t j = 0, count = 0; j < n; j += count) f(j, count = x_.together(t0 + j, t0 + n));
  }

  // by_blocks.h: by_scales
  void by_scales(size_t k, int64_t t0, int64_t n) {
    if (!c_.scaled) return;
    x_.read_scales(k, t0, scales_, n);
    Scores<T>::apply(ir::Op::mul, scores_, scales_, n);
  }

  void apply_mask(int64_t s, int64_t t0, int64_t n) {
    if (!p_.has_mask) return;
    Evaluator evaluator(p_.mask, mask_operands(call_.operands, c_.optional()), mask_scratch_);
    const auto step = static_cast<int64_t>(p_.mask.block);
    x_.at[c_.batch_rank] = s;
    for (int64_t j = 0; j < n; j += step) evaluator.segment(x_.at, t0 + j, std::min(step, n - j), scores_ + j, scores_ + j);
  }

  const Call& call_;
  const Constants& c_;
  const Problem& p_;
  Rows x_;
  T *query_, *scores_, *scales_, *sums_;
  std::byte* mask_scratch_;
};

template <class T, class Rows>
void run_tasks(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Plan*>(call.prepared);
  const int64_t all = p.problem.batch * p.problem.s, tasks = std::min(all, (c.filled ? tuning::tasks_of_uneven : tuning::tasks_of_worker) * call.workers->count());
  call.workers->run(tasks, [&](int64_t task, int worker) {
    Task<T, Rows> work(call, c, p, worker);
    for (int64_t q = all * task / tasks; q < all * (task + 1) / tasks; ++q) work.run(q / p.problem.s, q % p.problem.s);
  });
}

}  // namespace ingot::kernels::attention_queries
