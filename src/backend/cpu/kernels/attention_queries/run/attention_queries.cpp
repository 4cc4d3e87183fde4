// The "attention_queries" kernel: softmax(scale Q K^T + mask) V for few queries. Each query multiplies keys and values where they are, while the "attention" kernel copies them into panels
// first, which pays for many queries. Constants, operands and sizes are those of "attention".
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels/attention/run/cost.h"
#include "backend/cpu/kernels/attention/run/problem.h"
#include "backend/cpu/kernels/attention/run/tuning.h"
#include "backend/cpu/kernels/attention_queries/run/tile_queries.h"
#include "backend/cpu/kernels/attention_queries/run/tuning.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

namespace attention_queries {

namespace {

using attention::Constants;
using attention::Operands;
using attention::Problem;
using attention::Scores;
using ir::DType;

const QueryOps& query_ops() {
  static const QueryOps& chosen = backend::cpu::by_isa(query_ops_portable, query_ops_avx2, query_ops_avx512);
  return chosen;
}

struct Plan {
  Problem problem;
  size_t per_worker;
  // Elements of a worker's scratch: a query, scores, sums.
  int64_t query, scores, sums;
};

Resolved resolve(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  auto p = std::make_shared<Plan>();
  p->problem = attention::checked(call);
  const Problem& q = p->problem;
  auto padded = [](int64_t n) { return (n + 15) / 16 * 16; };
  p->query = padded(q.d), p->scores = padded(std::min(q.t, tuning::key_block)), p->sums = padded(q.e);
  p->per_worker = static_cast<size_t>(p->query + p->scores + p->sums) * (q.type == DType::f64 ? 8 : 4) + q.mask_bytes;
  auto has_gaps = [&](size_t k) { return call.operands[k].dims[c.batch_rank + 1] > 1 && call.operands[k].strides[c.batch_rank + 1] != 1; };
  const bool refused = c.in_order || has_gaps(1) || has_gaps(2);
  const double cost = attention::cost_by_queries({q.batch, q.s, q.t, q.d, q.e, q.type}, backend::cpu::machine());
  return {static_cast<size_t>(call.workers->count()) * p->per_worker, p, refused ? std::numeric_limits<double>::infinity() : cost};
}

// T: the type of scores.
template <class T>
class Task {
 public:
  Task(const Call& call, const Constants& c, const Plan& p, int worker) : call_(call), c_(c), p_(p.problem), x_(call, c, p_) {
    auto* at = reinterpret_cast<T*>(call.scratch + static_cast<size_t>(worker) * p.per_worker);
    query_ = at;
    scores_ = query_ + p.query;
    sums_ = scores_ + p.scores;
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
      query_ops().scores(rows(1, t0, n), scores_, query_, p_.d);
      apply_mask(s, t0, n);
      Scores<T>::softmax_rows(scores_, n, 1, n, &largest, &total, &keep);
      query_ops().sums(rows(2, t0, n), sums_, scores_, static_cast<double>(keep), p_.e);
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
  KeyRows rows(size_t operand, int64_t first, int64_t count) const { return {p_.type, x_.address(operand, first), x_.row_stride(operand), count}; }

  void apply_mask(int64_t s, int64_t t0, int64_t n) {
    if (!p_.has_mask) return;
    Evaluator evaluator(p_.mask, mask_operands(call_.operands, c_.filled), mask_scratch_);
    const auto step = static_cast<int64_t>(p_.mask.block);
    x_.at[c_.batch_rank] = s;
    for (int64_t j = 0; j < n; j += step) evaluator.segment(x_.at, t0 + j, std::min(step, n - j), scores_ + j, scores_ + j);
  }

  const Call& call_;
  const Constants& c_;
  const Problem& p_;
  Operands x_;
  T *query_, *scores_, *sums_;
  std::byte* mask_scratch_;
};

template <class T>
void run_tasks(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Plan*>(call.prepared);
  const int64_t all = p.problem.batch * p.problem.s, tasks = std::min<int64_t>(all, 4 * call.workers->count());
  call.workers->run(tasks, [&](int64_t task, int worker) {
    Task<T> work(call, c, p, worker);
    for (int64_t q = all * task / tasks; q < all * (task + 1) / tasks; ++q) work.run(q / p.problem.s, q % p.problem.s);
  });
}

void run(const Call& call) { static_cast<const Plan*>(call.prepared)->problem.type == DType::f64 ? run_tasks<double>(call) : run_tasks<float>(call); }

}  // namespace

}  // namespace attention_queries

namespace attention {

double cost_by_queries(const Sizes& q, const Machine& m) {
  namespace tuning = attention_queries::tuning;
  const double rows = static_cast<double>(q.batch) * static_cast<double>(q.s) * static_cast<double>(q.t),
               bytes = static_cast<double>((q.d + q.e) * static_cast<int64_t>(ir::size_of(q.type)));
  return rows * (tuning::ns_of_key + bytes / m.l3);
}

}  // namespace attention

std::span<const RunKernel> attention_queries_cpu_kernels() {
  static constexpr RunKernel list[] = {{"attention_queries", attention::load, attention_queries::resolve, attention_queries::run}};
  return list;
}

}  // namespace ingot::kernels
