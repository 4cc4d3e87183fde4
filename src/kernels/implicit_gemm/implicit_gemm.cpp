// A GEMM whose kernel computes A where it needs it: through a map (a convolution's windows), or as one row in a prologue. Backends without it
// have a matmul that reads A through a map, or store A.
#include "kernels/definition.h"
#include "kernels/random_case.h"

namespace ingot::kernels {

using namespace ir;

namespace {

// The windows of a padded image times a weight.
Handle convolution(RandomCase& c, DType type, Dim n) {
  const int64_t images = 1 + c.below(2), channels = c.one_of<int64_t>({3, 8, 16}), r = 1 + 2 * c.below(2), stride = 1 + c.below(2), before = r / 2;
  const int64_t h = r + c.below(8), w = r + c.below(8), oh = (h + 2 * before - r) / stride + 1, ow = (w + 2 * before - r) / stride + 1;
  Handle x = c.input("x", type, {images, h, w, channels});
  if (before > 0) x = pad(x, {0, before, before, 0}, {0, before, before, 0}, 0.0);
  const AffineMap windows{{images, oh, ow, r, r, channels}, {{0, {{0, 1}}}, {0, {{1, stride}, {3, 1}}}, {0, {{2, stride}, {4, 1}}}, {0, {{5, 1}}}}, std::nullopt};
  return matmul(reshape(view(x, windows), {images * oh * ow, r * r * channels}), transpose(c.weight("w", type, {n, r * r * channels}), 0, 1));
}

// One row that is normalised in the prologue.
Handle row(RandomCase& c, DType type, Dim n) {
  const int64_t k = 16 * (1 + c.below(4));
  const Handle wide = cast(c.input("x", type, {1, k}), DType::f32);
  const Handle x = cast(wide * rsqrt(mean(square(wide), {1}, keep) + 1e-5) * c.weight("scale", DType::f32, {k}), type);
  return matmul(x, transpose(c.weight("w", type, {n, k}), 0, 1));
}

Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const DType type = c.one_of({DType::f16, DType::f32});
  const Dim n = 8 * (1 + c.below(6));
  Handle y = c.one_in(3) ? row(c, type, n) : convolution(c, type, n);
  c.output("y", c.ended(y));
  return c.take();
}

}  // namespace

extern const Definition implicit_gemm_definition;
const Definition implicit_gemm_definition{"implicit_gemm",
                                          {{Role::a, optional}, {Role::prologue, any}, {Role::b}, {Role::b, any}, {Role::body, any}, {Role::output}, {Role::output, any}},
                                          {},
                                          nullptr,
                                          nullptr,
                                          random_case,
                                          {"gemm_*"}};

}  // namespace ingot::kernels
