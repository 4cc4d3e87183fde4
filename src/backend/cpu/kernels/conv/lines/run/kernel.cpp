// The "conv_lines" kernel: vectors along lines of outputs (lines.h).
#include "backend/cpu/kernels/conv/lines/run/line_end.h"
#include "backend/cpu/kernels/conv/lines/run/line_tile.h"
#include "backend/cpu/kernels/conv/lines/run/lines.h"
#include "backend/cpu/kernels/conv/run/cost.h"
#include "backend/cpu/kernels/conv/run/problem.h"
#include "backend/cpu/kernels/conv/run/tuning.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

namespace conv {

namespace {

// Null if results are not contiguous along lines, and are not a few columns followed by those of the next output.
std::shared_ptr<const LinePlan> plan_of(const Problem& p, const Constants& c, const Call& call) {
  const size_t batch = c.batch_rank;
  LineProblem q;
  if (!set_line_end(*c.body, q)) return nullptr;
  const TensorRef &to = call.operands[body_operand(c.body->stores[0].operand)], &b = call.operands[1];
  auto steps = [](const TensorRef& t, size_t d) { return t.dims[d] == 1 ? 0 : t.strides[d]; };
  if (to.strides[batch + 1] == 1 && p.n > (c.grouped ? 1 : tuning::max_adjacent_columns)) return nullptr;
  const TensorRef* bias = q.has_bias ? &call.operands[body_operand(static_cast<size_t>(c.body->simple.bias))] : nullptr;
  if (bias != nullptr && bias->dims[batch] != 1 && bias->strides[batch] != 0) return nullptr;
  const std::span<const int64_t> sizes = call.sizes.subspan(3, c.map_sizes());
  q.a = call.operands[0];
  q.steps = c.map.steps;
  q.sizes = sizes;
  for (size_t d = 0; d < batch; ++d) q.kept.push_back({steps(to, d), bias != nullptr ? steps(*bias, d) : 0, c.packed ? 0 : steps(b, d)});
  int64_t step = steps(to, batch);
  q.kept.resize(batch + c.map.m_rank);
  for (size_t i = c.map.m_rank; i-- > 0; step *= sizes[batch + i]) q.kept[batch + i] = {step, 0, 0};
  q.columns = p.n;
  q.to_column = to.strides[batch + 1];
  q.bias_column = bias != nullptr ? steps(*bias, batch + 1) : 0;
  if (c.packed) {
    q.panel = tile_ops().columns;
  } else {
    q.b_summed.resize(c.map.k_rank);
    int64_t row = b.strides[batch];
    for (size_t i = c.map.k_rank; i-- > 0; row *= sizes[batch + c.map.m_rank + i]) q.b_summed[i] = row;
    q.b_column = b.strides[batch + 1];
  }
  return line_plan(q, call.workers->count());
}

Resolved resolve_lines(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const Problem p = checked(call);
  auto plan = plan_of(p, c, call);
  if (plan == nullptr) return {0, nullptr, never};
  const size_t scratch = scratch_of(*plan);
  ConvSizes sizes = sizes_of(p.map, c.batch_rank, c.map.m_rank, p.group_axis, p.n);
  sizes.image = static_cast<double>(numel(call.operands[0]));
  const double cost = cost_of_lines(sizes, line_length(*plan), {backend::cpu::machine(), line_tiles().lanes, call.workers->count()});
  return {scratch, std::move(plan), cost};
}

void run_lines(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  auto body = [&](int operand) { return operand < 0 ? nullptr : call.operands[body_operand(static_cast<size_t>(operand))].data; };
  kernels::run_lines(*static_cast<const LinePlan*>(call.prepared), call.operands[0].data, call.operands[1].data, body(c.body->simple.bias),
                     body(static_cast<int>(c.body->stores[0].operand)), call.scratch, *call.workers);
}

}  // namespace

}  // namespace conv

std::span<const RunKernel> conv_lines_cpu_kernels() {
  static constexpr RunKernel list[] = {{"conv_lines", conv::load, conv::resolve_lines, conv::run_lines}};
  return list;
}

}  // namespace ingot::kernels
