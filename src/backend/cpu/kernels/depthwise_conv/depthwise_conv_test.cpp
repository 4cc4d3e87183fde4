// Depthwise convolutions against plain loops; the numbers are small integers, so results must be equal.
#include <gtest/gtest.h>

#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cpu/kernels/kernel_test.h"
#include "base/error.h"
#include "kernels/depthwise_conv/run/depthwise_conv_args.h"

namespace ingot::kernels {
namespace {

using ir::DType;

// x [N, H, W, C] with a kernel [R, S, C]. Indices: n, i, j, c; r, s.
struct Sums {
  int64_t n, h, w, c, r, s;
  int64_t stride = 1, pad = 0, dilation = 1;
  enum End { plain, bias, relu, residual } end = plain;
  bool lines = false;  // the image and the result lie as [N, C, H, W]
  int64_t out(int64_t size, int64_t kernel) const { return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1; }
};

DepthwiseConvArgs args_of(const Sums& v, std::span<const std::byte> body) {
  return {4, 4, 2, {1, 0, 0, 0, 0, 0, /**/ 0, v.stride, 0, 0, v.dilation, 0, /**/ 0, 0, v.stride, 0, 0, v.dilation, /**/ 0, 0, 0, 1, 0, 0}, body};
}

backend::cpu::Emitted body_of(const Sums& v, int64_t height, int64_t width) {
  backend::cpu::BodyBuilder body({v.n, height, width}, {v.c});
  backend::Instruction accumulator{};
  accumulator.kind = backend::Instruction::Kind::accumulator;
  accumulator.dtype = DType::f32;
  backend::Reg r = body.push(accumulator);
  if (v.end == Sums::bias || v.end == Sums::residual) r = body.map(ir::Op::add, DType::f32, {r, body.load(DType::f32)});
  if (v.end == Sums::relu) r = body.map(ir::Op::relu, DType::f32, {r});
  body.store(DType::f32, r);
  return backend::cpu::emit(body.body);
}

std::vector<int64_t> sizes_of(const Sums& v, int64_t height, int64_t width, const backend::cpu::Emitted& code) {
  std::vector<int64_t> sizes = {v.n, height, width, v.c, v.r, v.s, 0, -v.pad, -v.pad, 0};
  for (const ir::Dim& d : code.sizes) sizes.push_back(d.value());
  return sizes;
}

void check(const Sums& v, Workers& workers) {
  SCOPED_TRACE(fmt::format("{}x{}x{}x{} by {}x{}, stride {}, pad {}, dilation {}, end {}, lines {}", v.n, v.h, v.w, v.c, v.r, v.s, v.stride, v.pad, v.dilation,
                           static_cast<int>(v.end), v.lines));
  const int64_t height = v.out(v.h, v.r), width = v.out(v.w, v.s);
  const std::vector<size_t> order = v.lines ? std::vector<size_t>{0, 3, 1, 2} : std::vector<size_t>{};
  TestTensor x(DType::f32, {v.n, v.h, v.w, v.c}, order), weight(DType::f32, {1, 1, 1, v.c, v.r, v.s}, {0, 1, 2, 4, 5, 3}), result(DType::f32, {v.n, height, width, v.c}, order);
  TestTensor bias(DType::f32, {1, 1, 1, v.c}), residual(DType::f32, {v.n, height, width, v.c});
  fill_with_integers(x, 1);
  fill_with_integers(weight, 2);
  fill_with_integers(bias, 3);
  fill_with_integers(residual, 4);
  backend::cpu::Emitted code = body_of(v, height, width);
  std::vector<TestTensor*> operands = {&x, &weight, &result};
  if (v.end == Sums::bias) operands.insert(operands.end() - 1, &bias);
  if (v.end == Sums::residual) operands.insert(operands.end() - 1, &residual);
  EXPECT_TRUE(run_kernel(v.lines ? "depthwise_lines" : "depthwise_conv", serialise(args_of(v, code.code)), operands, sizes_of(v, height, width, code), workers));
  int wrong = 0;
  result.each([&](const std::vector<int64_t>& at) {
    double sum = v.end == Sums::bias ? bias.get({0, 0, 0, at[3]}) : v.end == Sums::residual ? residual.get(at) : 0;
    for (int64_t r = 0; r < v.r; ++r) {
      for (int64_t s = 0; s < v.s; ++s) {
        const int64_t y = at[1] * v.stride - v.pad + r * v.dilation, z = at[2] * v.stride - v.pad + s * v.dilation;
        if (y >= 0 && y < v.h && z >= 0 && z < v.w) sum += x.get({at[0], y, z, at[3]}) * weight.get({0, 0, 0, at[3], r, s});
      }
    }
    wrong += result.get(at) != (v.end == Sums::relu ? std::max(sum, 0.0) : sum);
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(result.untouched_outside());
}

TEST(depthwise_conv, sums) {
  for (Sums::End end : {Sums::plain, Sums::bias, Sums::relu, Sums::residual}) {
    check({2, 9, 13, 40, 3, 3, 1, 1, 1, end}, three());
    check({1, 5, 7, 130, 7, 7, 1, 3, 1, end}, three());  // every window leaves the image
    check({1, 7, 7, 132, 3, 3, 1, 1, 1, end}, three());  // three workers share seven lines: tasks are segments of lines
    check({1, 14, 13, 100, 5, 5, 2, 2, 1, end}, three());
  }
  for (int64_t channels : {1, 3, 4, 7, 8, 15, 16, 17, 33, 64, 96, 100, 260}) {
    for (int64_t stride : {1, 2}) check({1, 11, 19, channels, 5, 3, stride, 2, 1, Sums::bias}, three());
    check({1, 11, 19, channels, 5, 3, 1, 2, 1, Sums::residual}, three());
  }
  for (int64_t channels : {1, 2, 3, 5, 6, 12}) {  // vectors of several outputs, in tiles and outside of them
    for (Sums::End end : {Sums::plain, Sums::bias, Sums::relu, Sums::residual}) check({2, 7, 301, channels, 3, 3, 1, 1, 1, end}, three());
    check({1, 1, 600, channels, 1, 4, 1, 2, 3, Sums::bias}, three());
  }
  check({1, 14, 14, 20, 3, 3, 1, 4, 3}, three());
  check({3, 30, 30, 64, 7, 7, 1, 3, 1}, three());
  check({1, 1, 9, 24, 1, 4, 1, 0, 1}, three());   // one axis
  check({2, 6, 6, 16, 2, 2, 2, 0, 1}, three());   // windows side by side
  check({1, 2, 2, 16, 3, 3, 1, 3, 1}, three());   // windows outside the image
  check({0, 4, 4, 16, 3, 3, 1, 1, 1}, three());
  check({1, 4, 4, 0, 3, 3, 1, 1, 1}, three());
}

TEST(depthwise_lines, all) {
  for (Sums::End end : {Sums::plain, Sums::bias, Sums::relu}) {
    for (int64_t stride : {1, 2, 3, 4}) check({2, 11, 70, 5, 5, 3, stride, 2, 1, end, true}, three());
    check({1, 40, 33, 3, 3, 3, 1, 1, 1, end, true}, three());
    for (int64_t kernel : {3, 5, 7}) {  // neighbouring lines together
      for (int64_t height : {6, 7, 8, 14, 15, 29}) check({2, height, 37, 3, kernel, kernel, 1, kernel / 2, 1, end, true}, three());
      check({1, 30, 66, 2, kernel, 4, 1, 0, 1, end, true}, three());  // read in place
    }
    check({1, 40, 40, 2, 3, 3, 1, 12, 12, end, true}, three());     // windows mostly outside
    check({1, 1, 5000, 6, 1, 31, 1, 0, 1, end, true}, three());     // long lines, read in place
    check({1, 1, 20000, 2, 1, 31, 1, 15, 1, end, true}, three());   // in several blocks
    check({1, 30, 30, 4, 13, 13, 1, 6, 1, end, true}, three());     // more taps than one sum has
  }
}

std::string refusal(const Sums& v, auto change) {
  const int64_t height = v.out(v.h, v.r), width = v.out(v.w, v.s);
  TestTensor x(DType::f32, {v.n, v.h, v.w, v.c}), weight(DType::f32, {1, 1, 1, v.c, v.r, v.s}, {0, 1, 2, 4, 5, 3}), result(DType::f32, {v.n, height, width, v.c});
  backend::cpu::Emitted code = body_of(v, height, width);
  DepthwiseConvArgs args = args_of(v, code.code);
  std::vector<int64_t> sizes = sizes_of(v, height, width, code);
  change(args, sizes);
  try {
    run_kernel("depthwise_conv", serialise(args), {&x, &weight, &result}, sizes, inline_workers());
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

TEST(depthwise_conv, refuses_what_would_read_elsewhere) {
  const Sums v{1, 6, 6, 16, 3, 3, 1, 1, 1};
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(refusal(v, [](DepthwiseConvArgs&, Sizes&) {}), "taken");
  EXPECT_NE(refusal(v, [](DepthwiseConvArgs&, Sizes& s) { s[9] = 1; }).find("channels may be outside"), std::string::npos);
  EXPECT_NE(refusal(v, [](DepthwiseConvArgs& a, Sizes&) { a.steps[3 * 6 + 3] = 2; }).find("channels are not neighbours"), std::string::npos);
  EXPECT_NE(refusal(v, [](DepthwiseConvArgs& a, Sizes&) { a.steps[1 * 6 + 2] = 1; }).find("an axis is left along two indices"), std::string::npos);
  EXPECT_NE(refusal(v, [](DepthwiseConvArgs&, Sizes& s) { s[4] = 4; }).find("B does not have the sizes of the indices"), std::string::npos);
  EXPECT_NE(refusal(v, [](DepthwiseConvArgs&, Sizes& s) { s[0] = int64_t{1} << 41; }).find("a size of the map is impossible"), std::string::npos);
  EXPECT_NE(refusal(v, [](DepthwiseConvArgs& a, Sizes&) { a.steps[1 * 6 + 1] = -1; }).find("are damaged"), std::string::npos);
}

}  // namespace
}  // namespace ingot::kernels
