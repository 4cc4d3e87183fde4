// Integers that are put at all places of a sort, as when an order is inverted: no two meet, and all are written. They are added to zeros instead, which needs no order among them on a GPU.
#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

void scatter_by_order(Graph& g) {
  rewrite(g, [](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op != Op::scatter || in.size() != 3 || node.attributes.string("kind") != "set") return std::nullopt;
    const Handle base(&to, in[0]), updates(&to, in[1]), index(&to, in[2]);
    const Node& sorted = maker(to, in[2]);
    const bool of_order = sorted.op == Op::sort && in[2] == sorted.out[1] && index.rank() == 1 && base.rank() == 1 && base.dim(0) == index.dim(0);
    if (!of_order || !ir::is_integer(base.dtype())) return std::nullopt;
    return ir::scatter(ir::full(to, base.dims(), 0, base.dtype()), {0}, {index}, 0, false, updates, "add").id();
  });
}

}  // namespace ingot::lower
