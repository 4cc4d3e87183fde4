#include <algorithm>

#include "backend/cpu/compile/byte_code.h"
#include "backend/cpu/compile/offers.h"

namespace ingot::backend::cpu {

namespace {

// Whether the distance between a row's elements depends on open sizes, as where the batch lies innermost: the fastest order of sums would too.
bool lies_apart(const FusedBody& body, const std::vector<StridedLayout>& operands) {
  for (const Instruction& i : body.code) {
    if (i.kind != Instruction::Kind::load || i.operand >= operands.size() || !is_placed(operands[i.operand])) continue;
    const ir::Dims& strides = operands[i.operand].strides;
    const size_t first = std::min(body.outer.size(), strides.size());
    if (!std::all_of(strides.begin() + static_cast<std::ptrdiff_t>(first), strides.end(), [](const ir::Dim& s) { return s.is_constant(); })) return true;
  }
  return false;
}

}  // namespace

void fused_offers(const Site& site, const Settings& settings, Offers& out) {
  if (!std::holds_alternative<Fused>(site.kernel)) return;
  const bool in_order = settings.deterministic == Deterministic::batch && lies_apart(*site.body, site.operands);
  out.offers.push_back({.implementation = "byte code", .emit = [body = site.body, in_order] {
                          Emitted code = emit(*body, in_order);
                          EmittedStep step{"fused", std::move(code.code), std::move(code.sizes)};
                          step.sizes.insert(step.sizes.end(), body->outer.begin(), body->outer.end());
                          step.sizes.insert(step.sizes.end(), body->row.begin(), body->row.end());
                          step.elementwise = 0;
                          return step;
                        }});
}

}  // namespace ingot::backend::cpu
