#include "backend/cpu/kernels/matmul/run/stored.h"

#include <algorithm>

#include "backend/cpu/kernels/matmul/run/tuning.h"

namespace ingot::kernels::matmul {

bool only_stores(const Problem& p, const Program& body) {
  const SimpleEpilogue& s = body.simple;
  if (!p.f32) return body.code.size() == 1 && body.has_accumulator;
  return s.valid && s.scale < 0 && s.bias < 0 && s.residual < 0 && s.activation == SimpleEpilogue::none;
}

std::shared_ptr<Stored> stored(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  if (c.packed || c.map || c.in_order) return nullptr;
  auto p = std::make_shared<Stored>(checked(call));
  const TensorRef &a = call.operands[0], &b = call.operands[1], &to = call.operands[body_operand(c.body->stores[0].operand)];
  const int rank = c.batch_rank;
  if (!only_stores(*p, *c.body) || a.dtype != b.dtype || a.dtype != to.dtype || to.strides[rank + 1] != 1) return nullptr;
  if (p->k < 1 || p->k > tuning::max_short_terms || p->n > tuning::max_short_columns) return nullptr;
  p->type = a.dtype;
  p->a_row = a.strides[rank], p->a_column = a.strides[rank + 1];
  p->b_row = b.strides[rank], p->b_column = b.strides[rank + 1];
  p->to_row = to.strides[rank];
  const int64_t workers = call.workers->count(), products = p->batch * p->m * p->n * p->k;
  const int64_t wanted = workers == 1 ? 1 : std::clamp<int64_t>(products / tuning::products_of_short_task, 1, 4 * workers);
  p->parts = p->batch >= wanted || p->batch == 0 ? 1 : (wanted + p->batch - 1) / p->batch;
  p->tasks = p->parts == 1 ? std::min(wanted, p->batch) : p->batch * p->parts;
  return p;
}

}  // namespace ingot::kernels::matmul
