// Products whose results are only stored, with a B that stays near: what the kernels matmul_short and matmul_short_matrix share.
#pragma once
#include <memory>

#include "backend/cpu/kernels/matmul/run/problem.h"

namespace ingot::kernels::matmul {

// Strides are in elements. Columns of the result are neighbours.
struct Stored : Problem {
  explicit Stored(Problem p) : Problem(std::move(p)) {}
  ir::DType type = ir::DType::f32;
  int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0, to_row = 0;
  int64_t tasks = 1, parts = 1;  // of the product; of each matrix of the batch
};

// True if the body stores the sums as they are.
bool only_stores(const Problem&, const Program& body);

// null: another body, a packed or mapped operand, results in order, other layouts, or more terms and columns than stay near.
std::shared_ptr<Stored> stored(const Call&);

// Rows of one matrix of the batch.
struct StoredRows {
  const std::byte *a, *b;
  std::byte* to;
  int64_t rows;
  bool other_b;  // than that of the rows before
};

// Calls f(StoredRows) for each matrix of a task, of which there are Stored::tasks.
template <class F>
void rows_of_task(const Call& call, const Stored& p, int64_t task, F f) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const TensorRef &a = call.operands[0], &b = call.operands[1], &to = call.operands[body_operand(c.body->stores[0].operand)];
  const auto size = static_cast<int64_t>(ir::size_of(p.type));
  const int64_t groups = p.tasks / p.parts, group = task / p.parts, part = task % p.parts;
  const int64_t first = p.m * part / p.parts, last = p.m * (part + 1) / p.parts;
  const std::byte* before = nullptr;
  for (int64_t i = p.batch * group / groups; i < p.batch * (group + 1) / groups; ++i) {
    int64_t of_a = first * p.a_row, of_b = 0, of_to = first * p.to_row, rest = i;
    for (int d = c.batch_rank - 1; d >= 0; --d) {
      const int64_t at = rest % a.dims[d];
      rest /= a.dims[d];
      of_a += at * a.strides[d], of_b += at * b.strides[d], of_to += at * to.strides[d];
    }
    const StoredRows rows{a.data + of_a * size, b.data + of_b * size, to.data + of_to * size, last - first, b.data + of_b * size != before};
    before = rows.b;
    if (rows.rows > 0) f(rows);
  }
}

}  // namespace ingot::kernels::matmul
