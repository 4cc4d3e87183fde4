// The "attention_queries" kernel: softmax(scale Q K^T + mask) V for few queries (by_queries.h). Constants, operands and sizes are those of "attention".
#include "backend/cpu/kernels/attention/run/cost.h"
#include "backend/cpu/kernels/attention_queries/run/by_queries.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

namespace attention_queries {

using ir::DType;

const QueryOps& query_ops() {
  static const QueryOps& chosen = INGOT_TABLES(query_ops).best();
  return chosen;
}

Resolved resolve(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  auto p = std::make_shared<Plan>();
  p->problem = attention::checked(call);
  const Problem& q = p->problem;
  auto padded = [](int64_t n) { return (n + 15) / 16 * 16; };
  p->query = padded(q.d), p->scores = padded(std::min(q.t, tuning::key_block)), p->sums = padded(q.e);
  p->per_worker = static_cast<size_t>(p->query + 2 * p->scores + p->sums) * (q.type == DType::f64 ? 8 : 4) + q.mask_bytes;
  auto has_gaps = [&](size_t k) { return call.operands[k].dims[c.batch_rank + 1] > 1 && call.operands[k].strides[c.batch_rank + 1] != 1; };
  const bool refused = c.in_order || has_gaps(1) || has_gaps(2);
  const double cost = attention::cost_by_queries({q.batch, q.s, q.t, q.d, q.e, q.key_type}, backend::cpu::machine());
  return {static_cast<size_t>(call.workers->count()) * p->per_worker, p, refused ? std::numeric_limits<double>::infinity() : cost};
}

}  // namespace attention_queries

namespace attention {

double cost_by_queries(const Sizes& q, const Machine& m) {
  namespace tuning = attention_queries::tuning;
  const double rows = static_cast<double>(q.batch) * static_cast<double>(q.s) * static_cast<double>(q.t),
               bytes = static_cast<double>((q.d + q.e) * static_cast<int64_t>(ir::size_of(q.type)));
  return rows * (tuning::ns_of_key + bytes / m.l3);
}

}  // namespace attention

namespace {

void run_attention_queries(const Call& call) {
  using namespace attention_queries;
  static_cast<const Plan*>(call.prepared)->problem.type == ir::DType::f64 ? run_tasks<double, attention::Operands>(call) : run_tasks<float, attention::Operands>(call);
}

}  // namespace

std::span<const RunKernel> attention_queries_cpu_kernels() {
  static constexpr RunKernel list[] = {{"attention_queries", attention::load, attention_queries::resolve, run_attention_queries}};
  return list;
}

}  // namespace ingot::kernels
