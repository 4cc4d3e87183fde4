// Depthwise convolutions: products of windows and a weight, summed over each window. Without a kernel a fused body computes them.
#include "kernels/definition.h"
#include "kernels/random_case.h"

namespace ingot::kernels {

using namespace ir;

namespace {

// An image [N, C, H, W], with results that lie likewise.
Graph case_of_lines(RandomCase& c) {
  const int64_t n = 1 + c.below(2), channels = c.size(), r = 1 + 2 * c.below(3), stride = 1 + c.below(2), h = r + c.below(6), w = 24 * stride + r + c.below(20);
  const int64_t before = c.below(2) * (r / 2), oh = (h + 2 * before - r) / stride + 1, ow = (w + 2 * before - r) / stride + 1;
  Handle x(&c.graph, c.graph.add_input("x", {DType::f32, {n, channels, h, w}}));
  if (before > 0) x = pad(x, {0, 0, before, before}, {0, 0, before, before}, 0.0);
  AffineMap windows{{n, oh, ow, channels, r, r}, {{0, {{0, 1}}}, {0, {{3, 1}}}, {0, {{1, stride}, {4, 1}}}, {0, {{2, stride}, {5, 1}}}}, std::nullopt};
  AffineMap taps{{1, 1, 1, channels, r, r}, {{0, {{3, 1}}}, {0, {}}, {0, {{4, 1}}}, {0, {{5, 1}}}}, std::nullopt};
  Handle y = sum(view(x, windows) * view(c.weight("w", DType::f32, {channels, 1, r, r}), taps), {4, 5});
  if (c.one_in(2)) y = y + c.weight("bias", DType::f32, {channels});
  if (c.one_in(2)) y = relu(y);
  c.output("y", permute(y, {0, 3, 1, 2}));
  return c.take();
}

Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  if (c.one_in(3)) return case_of_lines(c);
  const int64_t n = 1 + c.below(3), channels = c.size(), r = 1 + 2 * c.below(3), stride = 1 + c.below(2), h = r + c.below(9), w = r + c.below(9), before = c.below(2) * (r / 2);
  const DType type = c.one_of({DType::f32, DType::f32, DType::f16});
  Handle x = cast(c.input("x", type, {n, h, w, channels}), DType::f32);
  if (before > 0) x = pad(x, {0, before, before, 0}, {0, before, before, 0}, 0.0);
  const int64_t oh = (h + 2 * before - r) / stride + 1, ow = (w + 2 * before - r) / stride + 1;
  AffineMap windows{{n, oh, r, ow, r, channels}, {{0, {{0, 1}}}, {0, {{1, stride}, {2, 1}}}, {0, {{3, stride}, {4, 1}}}, {0, {{5, 1}}}}, std::nullopt};
  AffineMap taps{{1, 1, r, 1, r, channels}, {{0, {{5, 1}}}, {0, {}}, {0, {{2, 1}}}, {0, {{4, 1}}}}, std::nullopt};
  Handle y = sum(view(x, windows) * view(c.weight("w", DType::f32, {channels, 1, r, r}), taps), {2, 4});
  c.output("y", cast(c.ended(y), type));
  return c.take();
}

}  // namespace

extern const Definition depthwise_conv_definition;
const Definition depthwise_conv_definition{"depthwise_conv", {{Role::a}, {Role::b}, {Role::body, any}, {Role::output}, {Role::output, any}}, {}, nullptr, nullptr, random_case,
                                           {"depthwise_*"}};

}  // namespace ingot::kernels
