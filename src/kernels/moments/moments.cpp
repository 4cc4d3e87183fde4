#include "kernels/definition.h"
#include "kernels/moments/run/moments_args.h"
#include "kernels/random_case.h"

namespace ingot::kernels {

namespace {

PlainStep plain(const ir::Graph& g, const ir::Node& node) {
  MomentsArgs args{std::vector<uint8_t>(g.type(node.in[0]).dims.size(), 0)};
  for (int64_t axis : node.attributes.integers("axes")) args.reduced[static_cast<size_t>(axis)] = 1;
  return {serialise(args)};
}

// A normalisation large enough for this kernel: over contiguous elements, or over groups of channels and places in channels-last order.
ir::Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const ir::DType type = c.one_of({ir::DType::f32, ir::DType::f16});
  const int64_t groups = 1 + c.below(5), each = c.one_of<int64_t>({1, 2, 3, 4, 8, 10}), places = 9000 / each + c.below(700);
  const bool last = c.one_in(2);
  const ir::Dims dims = last ? ir::Dims{1 + c.below(3), places, groups, each} : ir::Dims{1 + c.below(3), groups, each, places};
  const ir::Axes axes = last ? ir::Axes{1, 3} : ir::Axes{2, 3};
  const ir::Handle x = ir::cast(c.input("x", type, dims), ir::DType::f32);
  const double n = static_cast<double>(places * each);
  const ir::Handle centered = x - ir::reduce("sum", x, axes, ir::keep) / n;
  const ir::Handle variance = ir::reduce("sum", centered * centered, axes, ir::keep) / n;
  c.output("y", ir::cast(centered * ir::rsqrt(variance + 1e-5), type));
  return c.take();
}

}  // namespace

extern const Definition moments_definition;
const Definition moments_definition{"moments", {{Role::input}, {Role::output}, {Role::output}}, {ir::Op::moments}, plain, nullptr, random_case};

}  // namespace ingot::kernels
