#include "ir/compose.h"
#include "kernels/definition.h"
#include "kernels/fourier/run/fourier_args.h"
#include "kernels/random_case.h"

namespace ingot::kernels {

namespace {

PlainStep plain(const ir::Graph&, const ir::Node& node) {
  using Kind = ir::FourierKind;
  return {serialise(FourierArgs{node.op == ir::Op::fourier ? Kind::pair : node.op == ir::Op::fourier_of_real ? Kind::of_real : Kind::to_real, ir::fourier_axes(node.attributes)})};
}

using Complex = std::pair<ir::Handle, ir::Handle>;

// Along the `axes` last axes but the last one, an axis at a time.
Complex along_others(Complex z, int64_t axes) {
  for (int64_t i = 2; i <= axes; ++i) {
    auto transposed = [&](const ir::Handle& x) { return ir::transpose(x, -i, -1); };
    const auto [re, im] = ir::fourier(transposed(z.first), transposed(z.second));
    z = {transposed(re), transposed(im)};
  }
  return z;
}

// A transform along several axes as transforms along one.
std::vector<ir::ValueId> expand(ir::Graph& to, const ir::Node& node, const std::vector<ir::ValueId>& in) {
  const int64_t axes = ir::fourier_axes(node.attributes);
  const ir::Handle first(&to, in[0]), last(&to, in.back());
  if (node.op == ir::Op::fourier_to_real) {
    const auto [im, re] = along_others({last, first}, axes);  // the inverse
    return {ir::fourier_to_real(re, im, node.attributes.dim("length")).id()};
  }
  // The last axis first: its numbers are neighbours in memory most often.
  const auto [re, im] = along_others(node.op == ir::Op::fourier ? ir::fourier(first, last) : ir::fourier_of_real(first), axes);
  return {re.id(), im.id()};
}

// Every kind of stage: radices with code of their own, others, and lengths with a large prime factor.
ir::Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const int64_t axes = c.one_of<int64_t>({1, 1, 2, 3}),
                n = axes == 1 ? c.one_of<int64_t>({1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 22, 30, 37, 64, 97, 122, 243, 250, 512, 1001}) : c.size();
  ir::Dims dims = c.dims(c.below(3));
  for (int64_t i = 1; i < axes; ++i) dims.emplace_back(c.size());
  auto with = [&](int64_t last) {
    ir::Dims out = dims;
    out.emplace_back(last);
    return out;
  };
  auto part = [&](const char* name, int64_t last) { return c.input(name, ir::DType::f32, with(last)); };
  switch (c.below(3)) {
    case 0: {
      const auto [re, im] = ir::fourier(part("re", n), part("im", n), axes);
      c.output("re of it", re), c.output("im of it", im);
      break;
    }
    case 1: {
      const auto [re, im] = ir::fourier_of_real(part("x", n), axes);
      c.output("re", re), c.output("im", im);
      break;
    }
    default: c.output("x", ir::fourier_to_real(part("re", n / 2 + 1), part("im", n / 2 + 1), n, axes));
  }
  return c.take();
}

}  // namespace

extern const Definition fourier_definition;
const Definition fourier_definition{
    "fourier",           {{Role::input}, {Role::input, any}, {Role::output, any}}, {ir::Op::fourier, ir::Op::fourier_of_real, ir::Op::fourier_to_real}, plain, expand, random_case,
    {"fourier", "cufft"}};

}  // namespace ingot::kernels
