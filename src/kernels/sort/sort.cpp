#include "kernels/definition.h"
#include "kernels/random_case.h"
#include "kernels/sort/run/sort_args.h"

namespace ingot::kernels {

namespace {

PlainStep plain(const ir::Graph& g, const ir::Node& node) {
  const bool down = node.attributes.boolean(node.op == ir::Op::sort ? "descending" : "largest");
  const int64_t axis = g.type(node.in[0]).dims.empty() ? 0 : node.attributes.integer("axis");
  return {serialise(SortArgs{static_cast<uint8_t>(axis), down})};
}

ir::Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const int64_t rank = 1 + c.below(3), axis = c.below(rank);
  const ir::Handle x = c.input("x", c.one_of({ir::DType::f32, ir::DType::f16, ir::DType::i64}), c.dims(rank));
  const ir::Dim n = x.dim(axis);
  const bool down = c.one_in(2);
  const auto [values, indices] = c.one_in(2) || n.value() == 0 ? ir::sort(x, axis, down, true) : ir::topk(x, 1 + c.below(n.value()), axis, down, true);
  c.output("values", values);
  c.output("indices", indices);
  return c.take();
}

}  // namespace

extern const Definition sort_definition;
const Definition sort_definition{"sort", {{Role::input}, {Role::output}, {Role::output}}, {ir::Op::sort, ir::Op::topk}, plain, nullptr, random_case};

}  // namespace ingot::kernels
