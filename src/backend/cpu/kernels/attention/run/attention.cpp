// The "attention" kernel: softmax(scale Q K^T + mask) V without the score matrix (by_blocks.h).
#include "backend/cpu/kernels/attention/run/by_blocks.h"
#include "backend/cpu/kernels/attention/run/cost.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

namespace attention {

namespace by_blocks {

Resolved resolve(const Call& call) {
  auto p = std::make_shared<Plan>();
  p->problem = checked(call);
  const Problem& q = p->problem;
  auto bytes = [&](int64_t elements) { return static_cast<size_t>(round_up(elements * (q.type == DType::f64 ? 8 : 4), 64)); };
  int64_t workers = call.workers->count();
  const int64_t width = tile_ops().columns;
  p->query_block = std::min(std::max<int64_t>(q.s, 1), q.s >= tuning::rows_for_large ? tuning::large_query_block : tuning::query_block);
  if (q.batch < tuning::batches_of_worker * workers && q.s > tuning::divided_rows)
    p->query_block = std::min(p->query_block, std::max(tuning::least_rows, round_up((q.s + workers - 1) / workers, tuning::rows_of_tile)));
  p->query_blocks = q.s == 0 ? 0 : (q.s + p->query_block - 1) / p->query_block;
  int64_t keys = std::min(tuning::key_block, std::max<int64_t>(q.t, 1));
  p->t_width = round_up(keys, static_cast<const Constants*>(call.constants)->in_order ? tuning::summed_group : width);
  p->s_row = p->t_width + (p->t_width % tuning::aliased_row == 0 ? tuning::row_gap : 0);
  p->e_width = round_up(std::max<int64_t>(q.e, 1), width);
  p->q_bytes = bytes(p->query_block * std::max<int64_t>(q.d, 1));
  p->k_bytes = bytes(p->t_width * q.d + tuning::read_beyond);
  p->v_bytes = bytes(keys * p->e_width + tuning::read_beyond);
  p->s_bytes = bytes(p->query_block * p->s_row);
  p->o_bytes = bytes(p->query_block * p->e_width);
  p->state_bytes = bytes(3 * p->query_block + 2 * p->t_width);
  p->per_worker = p->q_bytes + p->k_bytes + p->v_bytes + p->s_bytes + p->o_bytes + p->state_bytes + q.mask_bytes;
  const double cost = cost_by_blocks({q.batch, q.s, q.t, q.d, q.e, q.key_type}, backend::cpu::machine());
  return {static_cast<size_t>(workers) * p->per_worker, p, cost};
}

}  // namespace by_blocks

double cost_by_blocks(const Sizes& q, const Machine& m) {
  const double s = static_cast<double>(q.s), t = static_cast<double>(q.t), width = static_cast<double>(q.d + q.e), wide = q.type == ir::DType::f64 ? 2 : 1;
  const double blocks = std::ceil(s / static_cast<double>(tuning::query_block)),
               element = q.type == ir::DType::f32 ? tuning::ns_of_packed_element : tuning::ns_of_converted_element;
  return static_cast<double>(q.batch) * t * (blocks * width * element + s * wide * (width / m.f32 + tuning::ns_of_weight));
}

}  // namespace attention

namespace {

void run_attention(const Call& call) {
  using namespace attention;
  static_cast<const by_blocks::Plan*>(call.prepared)->problem.type == ir::DType::f64 ? by_blocks::run_tasks<double, attention::Operands>(call)
                                                                                     : by_blocks::run_tasks<float, attention::Operands>(call);
}

}  // namespace

std::span<const RunKernel> attention_cpu_kernels() {
  static constexpr RunKernel list[] = {{"attention", attention::load, attention::by_blocks::resolve, run_attention}};
  return list;
}

}  // namespace ingot::kernels
