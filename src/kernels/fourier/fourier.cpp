#include "kernels/definition.h"
#include "kernels/fourier/run/fourier_args.h"
#include "kernels/random_case.h"

namespace ingot::kernels {

namespace {

PlainStep plain(const ir::Graph&, const ir::Node& node) {
  using Kind = ir::FourierKind;
  return {serialise(FourierArgs{node.op == ir::Op::fourier ? Kind::pair : node.op == ir::Op::fourier_of_real ? Kind::of_real : Kind::to_real})};
}

// Every kind of stage: radices with code of their own, others, and lengths with a large prime factor.
ir::Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const int64_t n = c.one_of<int64_t>({1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 22, 30, 37, 64, 97, 122, 243, 250, 512, 1001});
  ir::Dims dims = c.dims(c.below(3));
  auto with = [&](int64_t last) {
    ir::Dims out = dims;
    out.emplace_back(last);
    return out;
  };
  auto part = [&](const char* name, int64_t last) { return c.input(name, ir::DType::f32, with(last)); };
  switch (c.below(3)) {
    case 0: {
      const auto [re, im] = ir::fourier(part("re", n), part("im", n));
      c.output("re of it", re), c.output("im of it", im);
      break;
    }
    case 1: {
      const auto [re, im] = ir::fourier_of_real(part("x", n));
      c.output("re", re), c.output("im", im);
      break;
    }
    default: c.output("x", ir::fourier_to_real(part("re", n / 2 + 1), part("im", n / 2 + 1), n));
  }
  return c.take();
}

}  // namespace

extern const Definition fourier_definition;
const Definition fourier_definition{
    "fourier",           {{Role::input}, {Role::input, any}, {Role::output, any}}, {ir::Op::fourier, ir::Op::fourier_of_real, ir::Op::fourier_to_real}, plain, nullptr, random_case,
    {"fourier", "cufft"}};

}  // namespace ingot::kernels
