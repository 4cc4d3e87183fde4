// The "depthwise_lines" kernel: depthwise convolutions with vectors along lines of outputs (conv/lines/run/lines.h). Constants, operands and sizes are those of "depthwise_conv".
#include <limits>

#include "backend/cpu/kernels/conv/lines/run/line_end.h"
#include "backend/cpu/kernels/conv/lines/run/lines.h"
#include "backend/cpu/kernels/depthwise_conv/run/problem.h"

namespace ingot::kernels {

namespace {

Resolved resolve_lines(const Call& call) {
  const auto& c = *static_cast<const depthwise::Constants*>(call.constants);
  const depthwise::Problem p = depthwise::checked(call);
  if (p.is_empty()) return {};
  const Resolved refused{0, nullptr, std::numeric_limits<double>::infinity()};
  const size_t to = c.body->stores[0].operand;
  LineProblem q;
  if (!set_line_end(*c.body, q)) return refused;
  q.a = call.operands[0];
  q.steps = c.args.steps;
  q.sizes = call.sizes.first(c.map_sizes());
  for (size_t i = 0; i < c.args.kept; ++i) {
    q.kept.push_back({p.bound.strides[to][i], q.has_bias ? p.bound.strides[static_cast<size_t>(c.body->simple.bias)][i] : 0, p.b_strides[i]});
  }
  q.b_summed.assign(p.b_strides.begin() + c.args.kept, p.b_strides.end());
  auto plan = line_plan(q, call.workers->count());
  if (plan == nullptr) return refused;
  const size_t scratch = scratch_of(*plan);
  return {scratch, std::move(plan)};
}

void run_lines_of_channels(const Call& call) {
  const auto& c = *static_cast<const depthwise::Constants*>(call.constants);
  const auto* plan = static_cast<const LinePlan*>(call.prepared);
  if (plan == nullptr) return;  // there is nothing to compute
  auto body = [&](int operand) { return operand < 0 ? nullptr : call.operands[body_operand(static_cast<size_t>(operand))].data; };
  run_lines(*plan, call.operands[0].data, call.operands[1].data, body(c.body->simple.bias), body(static_cast<int>(c.body->stores[0].operand)), call.scratch, *call.workers);
}

}  // namespace

std::span<const RunKernel> depthwise_lines_cpu_kernels() {
  static constexpr RunKernel list[] = {{"depthwise_lines", depthwise::load, resolve_lines, run_lines_of_channels}};
  return list;
}

}  // namespace ingot::kernels
