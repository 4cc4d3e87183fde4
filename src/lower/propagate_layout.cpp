// Pointwise operations go through their operands in the order that these have in memory. A convolution's result is a matmul's, with a row for each place and a
// column for each channel, viewed as [N, C, H, W]; bias, normalisation, activation, residual, padding, concatenation, resampling and sums after it work on
// [N, H, W, C]. Only a reader that needs another order pays for it. The rules are in layout/.
#include "lower/layout/rules.h"
#include "lower/passes.h"

namespace ingot::lower {

namespace {

constexpr struct {
  Op op;
  LayoutRule rule;
} rules[] = {
    {Op::view, view_in_order}, {Op::reduce, reduce_in_order}, {Op::reshape, reshape_in_order}, {Op::concat, concat_in_order}, {Op::gather, gather_in_order},
};

LayoutRule rule_of(Op op) {
  for (const auto& [with, rule] : rules) {
    if (with == op) return rule;
  }
  return is_map(op) ? map_in_order : nullptr;
}

}  // namespace

void propagate_layout(Graph& g) {
  Layouts layouts(g);
  rewrite(g, [&](Graph& to, const Node& node, std::vector<ValueId> in) -> std::optional<ValueId> {
    const LayoutRule rule = rule_of(node.op);
    return rule != nullptr ? rule(layouts, to, node, in) : std::nullopt;
  });
}

}  // namespace ingot::lower
