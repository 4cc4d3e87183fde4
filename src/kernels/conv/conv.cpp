// Convolutions that read their windows in place: another implementation of a GEMM with a map. Without it rows are copied to panels.
#include "kernels/definition.h"
#include "kernels/random_case.h"

namespace ingot::kernels {

using namespace ir;

namespace {

// Windows of an image [N, C, H, W], with results that lie likewise.
Graph case_of_lines(RandomCase& c) {
  const int64_t images = 1 + c.below(2), channels = c.one_of<int64_t>({1, 3, 17}), columns = c.one_of<int64_t>({1, 3, 8, 20}), r = 1 + 2 * c.below(2), stride = 1 + c.below(2);
  const int64_t before = c.below(2) * (r / 2), h = r + c.below(5), w = 16 * stride + r + c.below(30), k = channels * r * r;
  const int64_t oh = (h + 2 * before - r) / stride + 1, ow = (w + 2 * before - r) / stride + 1;
  Handle x(&c.graph, c.graph.add_input("x", {DType::f32, {images, channels, h, w}}));
  if (before > 0) x = pad(x, {0, 0, before, before}, {0, 0, before, before}, 0.0);
  const AffineMap windows{{images, oh, ow, channels, r, r}, {{0, {{0, 1}}}, {0, {{3, 1}}}, {0, {{1, stride}, {4, 1}}}, {0, {{2, stride}, {5, 1}}}}, std::nullopt};
  Handle y = matmul(reshape(view(x, windows), {images, oh * ow, k}), c.weight("w", DType::f32, {k, columns}), {{"convolution", true}});
  if (c.one_in(2)) y = y + c.weight("bias", DType::f32, {columns});
  if (c.one_in(2)) y = relu(y);
  c.output("y", reshape(permute(y, {0, 2, 1}), {images, columns, oh, ow}));
  return c.take();
}

// The windows of a padded image [N, H, W, groups, C] times a weight per group; the columns of groups are side by side.
Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  if (c.one_in(3)) return case_of_lines(c);
  const int64_t images = 1 + c.below(2), groups = c.one_of<int64_t>({1, 1, 2, 8, 16}), channels = groups == 1 ? c.size() : c.one_of<int64_t>({1, 2, 4}),
                columns = c.one_of<int64_t>({1, 2, 4, 8, 19});
  const int64_t r = 1 + 2 * c.below(2), stride = 1 + c.below(2), before = r / 2, h = r + c.below(8), w = r + c.below(8);
  const int64_t oh = (h + 2 * before - r) / stride + 1, ow = (w + 2 * before - r) / stride + 1, k = r * r * channels;
  Handle x = c.input("x", DType::f32, {images, h, w, groups, channels});
  if (before > 0) x = pad(x, {0, before, before, 0, 0}, {0, before, before, 0, 0}, 0.0);
  const AffineMap windows{
      {groups, images, oh, ow, r, r, channels}, {{0, {{1, 1}}}, {0, {{2, stride}, {4, 1}}}, {0, {{3, stride}, {5, 1}}}, {0, {{0, 1}}}, {0, {{6, 1}}}}, std::nullopt};
  const Handle b = reshape(c.weight("w", DType::f32, {k, groups * columns}), {k, groups, columns});
  Handle y = matmul(reshape(view(x, windows), {groups, images * oh * ow, k}), permute(b, {1, 0, 2}));
  y = reshape(permute(y, {1, 0, 2}), {images * oh * ow, groups * columns});
  c.output("y", c.ended(y));
  return c.take();
}

}  // namespace

extern const Definition conv_definition;
const Definition conv_definition{"conv", {{Role::a}, {Role::b}, {Role::body, any}, {Role::output}, {Role::output, any}}, {}, nullptr, nullptr, random_case, {"conv_*"}};

}  // namespace ingot::kernels
