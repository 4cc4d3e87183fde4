// A grid_sample whose result is only read with its channels in front writes it so.
#include "compile/passes/passes.h"
#include "ir/replace.h"

namespace ingot::compile {

using namespace ir;

namespace {

// [N, out..., C] as [N, C, out...].
bool moves_channels_forward(const AffineMap& map, const Dims& dims) {
  std::vector<int64_t> order{0, static_cast<int64_t>(dims.size()) - 1};
  for (size_t i = 1; i + 1 < dims.size(); ++i) order.push_back(static_cast<int64_t>(i));
  return map == permute_map(dims, order);
}

}  // namespace

void sample_in_order(Graph& g, const Backend&) {
  const auto users = g.users();
  std::vector<bool> is_output(g.values.size(), false);
  for (const Output& o : g.outputs) is_output[o.value] = true;
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>&, const std::vector<ValueId>& renamed) -> std::optional<ValueId> {
    if (node.op != Op::view) return std::nullopt;
    const ValueId of = node.in[0];
    const Node& sample = g.producer(of);
    if (sample.op != Op::grid_sample || users[of].size() > 1 || is_output[of] || !sample.attributes.boolean("channels_last")) return std::nullopt;
    if (!moves_channels_forward(node.attributes.map("map"), g.type(of).dims)) return std::nullopt;
    Attributes attributes = sample.attributes;
    attributes.set("channels_last", false);
    return to.add(sample.op, {renamed[sample.in[0]], renamed[sample.in[1]]}, std::move(attributes), g.type(node.out[0]));
  });
}

}  // namespace ingot::compile
