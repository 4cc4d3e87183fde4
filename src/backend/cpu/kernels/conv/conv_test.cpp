// Grouped convolutions by every kernel of the family that can compute them, against plain loops; the numbers are small integers, so results must be equal. For one group see
// matmul/rows_test.cpp.
#include <gtest/gtest.h>

#include <set>

#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cpu/kernels/conv/conv_test.h"
#include "backend/cpu/kernels/kernel_test.h"
#include "backend/cpu/run/isa.h"
#include "base/error.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::kernels {
namespace {

using ir::DType;

// x [N, H, W, G C] with kernels [G, R S C, O], [R, S, C, G, O] in memory. Indices: g, n, i, j; r, s, c.
struct Groups {
  int64_t n, h, w, groups, c, o, r, s;
  int64_t stride = 1, pad = 0, dilation = 1;
  enum End { plain, bias_relu, scale_clamp, residual, twice } end = plain;
  bool lines = false;  // the image and the result lie as [N, C, H, W]; one image
  bool by_groups = false;  // the kernels are [G, R, S, C, O] in memory
  int64_t out(int64_t size, int64_t kernel) const { return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1; }
};

GemmMap map_of(const Groups& v) {
  return {4, 3, 3, {0, 1, 0, 0, 0, 0, 0, /**/ 0, 0, v.stride, 0, v.dilation, 0, 0, /**/ 0, 0, 0, v.stride, 0, v.dilation, 0, /**/ v.c, 0, 0, 0, 0, 0, 1}};
}

backend::cpu::Emitted body_of(const Groups& v, int64_t rows) {
  backend::cpu::BodyBuilder body({rows}, {v.groups * v.o});
  backend::Instruction accumulator{};
  accumulator.kind = backend::Instruction::Kind::accumulator;
  accumulator.dtype = DType::f32;
  backend::Reg r = body.push(accumulator);
  if (v.end == Groups::scale_clamp) r = body.map(ir::Op::mul, DType::f32, {r, body.load(DType::f32)});
  if (v.end == Groups::bias_relu || v.end == Groups::scale_clamp) r = body.map(ir::Op::add, DType::f32, {r, body.load(DType::f32)});
  if (v.end == Groups::bias_relu) r = body.map(ir::Op::relu, DType::f32, {r});
  if (v.end == Groups::scale_clamp) r = body.map(ir::Op::min, DType::f32, {body.number(6.0, DType::f32), body.map(ir::Op::max, DType::f32, {body.number(-2.0, DType::f32), r})});
  if (v.end == Groups::residual) r = body.map(ir::Op::add, DType::f32, {r, body.load(DType::f32)});
  if (v.end == Groups::twice) r = body.map(ir::Op::mul, DType::f32, {r, r});  // not an epilogue of tiles
  body.store(DType::f32, r);
  return backend::cpu::emit(body.body);
}

void check(const Groups& v, Workers& workers, ConvKernels& family) {
  SCOPED_TRACE(fmt::format("{}x{}x{}, {} groups of {} to {}, by {}x{}, stride {}, pad {}, dilation {}, end {}, lines {}, by groups {}", v.n, v.h, v.w, v.groups, v.c, v.o, v.r, v.s,
                           v.stride, v.pad, v.dilation, static_cast<int>(v.end), v.lines, v.by_groups));
  const int64_t height = v.out(v.h, v.r), width = v.out(v.w, v.s), rows = v.n * height * width, k = v.r * v.s * v.c;
  using Order = std::vector<size_t>;
  TestTensor x(DType::f32, {v.n, v.h, v.w, v.groups * v.c}, v.lines ? Order{0, 3, 1, 2} : Order{}), weight(DType::f32, {v.groups, k, v.o}, v.by_groups ? Order{} : Order{1, 0, 2});
  TestTensor scale(DType::f32, {v.groups, 1, v.o}), bias(DType::f32, {v.groups, 1, v.o}), residual(DType::f32, {v.groups, rows, v.o}, {1, 0, 2});
  uint32_t seed = 0;
  for (TestTensor* t : {&x, &weight, &scale, &bias, &residual}) fill_with_integers(*t, ++seed);
  backend::cpu::Emitted code = body_of(v, rows);
  std::vector<TestTensor*> operands = {&x, &weight};
  if (v.end == Groups::scale_clamp) operands.push_back(&scale);
  if (v.end == Groups::bias_relu || v.end == Groups::scale_clamp) operands.push_back(&bias);
  if (v.end == Groups::residual) operands.push_back(&residual);
  std::vector<int64_t> sizes = {rows, v.o, k, v.groups, v.n, height, width, v.r, v.s, v.c, 0, -v.pad, -v.pad, 0};
  for (const ir::Dim& d : code.sizes) sizes.push_back(d.value());
  TestTensor wanted(DType::f32, {v.groups, rows, v.o});
  wanted.each([&](const std::vector<int64_t>& at) {
    const int64_t g = at[0], n = at[1] / (height * width), i = at[1] / width % height, j = at[1] % width, o = at[2];
    double sum = 0;
    for (int64_t r = 0; r < v.r; ++r) {
      for (int64_t s = 0; s < v.s; ++s) {
        const int64_t y = i * v.stride - v.pad + r * v.dilation, z = j * v.stride - v.pad + s * v.dilation;
        if (y < 0 || y >= v.h || z < 0 || z >= v.w) continue;
        for (int64_t c = 0; c < v.c; ++c) sum += x.get({n, y, z, g * v.c + c}) * weight.get({g, (r * v.s + s) * v.c + c, o});
      }
    }
    if (v.end == Groups::bias_relu) sum = std::max(sum + bias.get({g, 0, o}), 0.0);
    if (v.end == Groups::scale_clamp) sum = std::min(std::max(sum * scale.get({g, 0, o}) + bias.get({g, 0, o}), -2.0), 6.0);
    if (v.end == Groups::residual) sum += residual.get(at);
    if (v.end == Groups::twice) sum *= sum;
    wanted.put(at, sum);
  });
  family.each([&](std::string_view kernel) {
    SCOPED_TRACE(kernel);
    TestTensor result(DType::f32, {v.groups, rows, v.o}, v.lines ? Order{0, 2, 1} : Order{1, 0, 2});
    std::vector<TestTensor*> all = operands;
    all.push_back(&result);
    if (!run_kernel(kernel, serialise(MatmulArgs{false, 1, code.code, false, map_of(v)}), all, sizes, workers)) return false;
    EXPECT_EQ(result.values(), wanted.values());
    EXPECT_TRUE(result.untouched_outside());
    return true;
  });
}

class Conv : public testing::Test {
 protected:
  void check(const Groups& v, Workers& workers) { kernels::check(v, workers, family); }
  ConvKernels family;
};

TEST_F(Conv, Groups) {
  auto pool = make_pool(2);
  for (Groups::End end : {Groups::plain, Groups::bias_relu, Groups::scale_clamp, Groups::residual, Groups::twice}) {
    for (auto [c, o] : {std::pair<int64_t, int64_t>{1, 2}, {2, 2}, {4, 2}, {2, 1}, {1, 4}, {2, 4}, {4, 4}, {8, 4}, {3, 8}, {8, 16}, {5, 24}}) {
      check({2, 7, 9, 12, c, o, 3, 3, 1, 1, 1, end}, inline_workers());  // also with a last vector that overlaps the one before
      check({1, 6, 31, 9, c, o, 3, 2, 2, 1, 1, end}, *pool);
    }
    for (auto [c, o] : {std::pair<int64_t, int64_t>{1, 1}, {4, 1}, {12, 1}, {1, 3}, {3, 3}, {6, 6}, {5, 10}, {1, 5}, {9, 20}, {2, 33}}) {  // vectors that are not full
      check({2, 7, 9, 3, c, o, 3, 3, 1, 1, 1, end}, inline_workers());
      check({1, 1, 31, 16, c, o, 1, 40, 1, 20, 1, end}, *pool);
      check({1, 6, 13, 2, c, o, 3, 2, 2, 1, 1, end}, *pool);
    }
    check({1, 5, 5, 2, 2, 2, 3, 3, 1, 1, 1, end}, inline_workers());  // fewer columns in all groups than a vector has
    for (int64_t o : {8, 16, 32}) check({1, 7, 7, 6, 8, o, 3, 3, 1, 1, 1, end, false, true}, *pool);  // panels as they lie; seven lines for two workers
  }
  for (Groups::End end : {Groups::plain, Groups::bias_relu, Groups::scale_clamp, Groups::residual, Groups::twice}) {  // by Winograd's transformation
    for (auto [c, o] : {std::pair<int64_t, int64_t>{16, 16}, {16, 24}, {20, 32}, {32, 48}, {8, 8}}) {
      check({2, 14, 13, 5, c, o, 3, 3, 1, 1, 1, end}, *pool);
      check({1, 12, 12, 3, c, o, 3, 3, 1, 1, 1, end, false, true}, inline_workers());
    }
  }
  check({1, 9, 9, 8, 4, 4, 3, 3, 1, 4, 3}, *pool);   // windows completely outside
  check({1, 1, 400, 4, 4, 8, 1, 5, 4, 2}, *pool);    // one long line
  check({0, 4, 4, 8, 4, 4, 3, 3, 1, 1}, *pool);
  for (const char* kernel : {"conv_tiles", "conv_winograd", "conv_groups"}) EXPECT_TRUE(family.ran(kernel) > 0 || backend::cpu::isa() == backend::cpu::Isa::portable) << kernel;
}

// Windows of few elements at each tap, which are joined along the line.
TEST_F(Conv, ShortTaps) {
  auto pool = make_pool(2);
  for (Groups::End end : {Groups::plain, Groups::bias_relu}) {
    for (int64_t c : {1, 2, 3, 5, 9}) {
      for (int64_t pad : {0, 1, 3}) {
        check({2, 11, 31, 2, c, 16, 3, 7, 2, pad, 1, end}, *pool);
        check({1, 11, 31, 2, c, 24, 5, 5, 1, pad, 1, end}, inline_workers());
      }
      check({1, 9, 40, 2, c, 32, 3, 3, 1, 2, 2, end}, *pool);  // dilated: nothing to join
    }
  }
}

// Three adjacent taps, which share what they read.
TEST_F(Conv, Threes) {
  auto pool = make_pool(2);
  for (int64_t width = 5; width < 34; ++width) {
    for (int64_t pad : {0, 1}) {
      check({1, 5, width, 2, 16, 16, 3, 3, 2, pad, 1, Groups::residual}, *pool);
      check({1, 5, width, 2, 6, 16, 2, 3, 1, pad, 1, Groups::scale_clamp}, inline_workers());
    }
    check({2, 4, width, 3, 8, 8, 3, 3, 2, 1, 1, Groups::bias_relu}, *pool);
  }
  for (Groups::End end : {Groups::plain, Groups::bias_relu, Groups::scale_clamp, Groups::residual, Groups::twice}) {
    for (int64_t stride : {1, 2}) {
      check({1, 15, 15, 3, 12, 24, 3, 3, stride, 1, 1, end}, *pool);
      check({1, 9, 28, 2, 40, 16, 5, 3, stride, 1, 1, end, false, true}, *pool);  // more products than one sum has
      check({1, 9, 28, 2, 7, 16, 3, 3, stride, 1, 1, end}, *pool);                // an odd number of channels
      check({1, 9, 60, 2, 16, 16, 1, 3, stride, 1, 2, end}, *pool);               // dilated
    }
  }
  check({1, 9, 28, 2, 16, 16, 3, 3, 3, 1, 1}, *pool);
  check({1, 9, 28, 2, 16, 16, 3, 3, 1, 2, 1}, *pool);
}

// Outputs near the ends of lines have taps of their own; those of several lines are computed together.
TEST_F(Conv, EndsOfLines) {
  auto pool = make_pool(2);
  for (Groups::End end : {Groups::plain, Groups::bias_relu, Groups::scale_clamp, Groups::residual, Groups::twice}) {
    check({2, 9, 20, 2, 17, 32, 5, 7, 1, 3, 1, end}, *pool);           // the lines of two images are not evenly apart
    check({1, 40, 9, 3, 9, 24, 3, 3, 1, 4, 4, end}, inline_workers());  // more lines than a tile has outputs
    check({2, 11, 15, 2, 17, 48, 7, 7, 2, 3, 1, end}, *pool);
  }
}

TEST_F(Conv, AlongLines) {
  auto pool = make_pool(2);
  for (Groups::End end : {Groups::plain, Groups::bias_relu}) {
    for (int64_t o : {1, 2, 3, 4, 5, 7, 8, 20, 40}) {
      check({1, 7, 31, 3, 2, o, 3, 3, 1, 1, 1, end, true}, inline_workers());
      check({1, 9, 40, 2, 20, o, 3, 3, 1, 1, 1, end, true}, *pool);       // more taps than one sum has
      check({1, 12, 70, 2, 5, o, 5, 3, 2, 2, 1, end, true}, *pool);
      check({1, 6, 33, 2, 3, o, 1, 1, 1, 0, 1, end, true}, *pool);        // read in place
    }
    check({1, 9, 131, 2, 3, 6, 2, 4, 4, 1, 1, end, true}, *pool);
    check({1, 9, 40, 2, 20, 70, 3, 3, 1, 1, 1, end, true}, *pool);     // several tiles of columns for each block of taps
    check({1, 9, 100, 2, 3, 6, 3, 3, 3, 4, 3, end, true}, *pool);
    check({1, 20, 24, 2, 2, 8, 3, 3, 1, 9, 9, end, true}, inline_workers());  // windows mostly outside
    check({1, 1, 3000, 2, 40, 8, 1, 5, 1, 2, 1, end, true}, *pool);     // a long line, in several blocks
    check({1, 8, 900, 2, 70, 40, 1, 1, 1, 0, 1, end, true}, *pool);     // copied, as it is read for many columns
  }
  EXPECT_GT(family.ran("conv_lines"), 0);
}

TEST(conv, what_does_not_fit_is_refused) {
  const Groups v{1, 4, 4, 8, 4, 4, 3, 3, 1, 1};
  TestTensor x(DType::f32, {1, 4, 4, 32}), weight(DType::f32, {8, 36, 4}, {1, 0, 2}), result(DType::f32, {8, 16, 4}, {1, 0, 2}), strided(DType::f32, {8, 16, 4});
  const backend::cpu::Emitted code = body_of(v, 16);
  auto code_of = [&](TestTensor* a, TestTensor* b, TestTensor* to, auto change) {
    MatmulArgs args{false, 1, code.code, false, map_of(v)};
    std::vector<int64_t> sizes = {16, 4, 36, 8, 1, 4, 4, 3, 3, 4, 0, -1, -1, 0};
    change(args, sizes);
    std::set<Code> codes;
    ConvKernels().each([&](std::string_view kernel) {
      try {
        run_kernel(kernel, serialise(args), {a, b, to}, sizes, inline_workers());
        codes.insert(Code::ok);
      } catch (const Error& e) {
        codes.insert(e.code);
      }
      return true;
    });
    return codes.size() == 1 ? *codes.begin() : Code::internal;
  };
  auto nothing = [](MatmulArgs&, std::vector<int64_t>&) {};
  EXPECT_EQ(code_of(&x, &weight, &result, nothing), Code::ok);
  EXPECT_EQ(code_of(&x, &weight, &strided, nothing), Code::format);   // columns of groups are not contiguous
  EXPECT_EQ(code_of(&weight, &weight, &result, nothing), Code::format);
  EXPECT_EQ(code_of(&x, &result, &result, nothing), Code::format);
  EXPECT_EQ(code_of(&x, &weight, &result, [](MatmulArgs& a, auto&) { a.map.reset(); }), Code::format);
  EXPECT_EQ(code_of(&x, &weight, &result, [](MatmulArgs& a, auto&) { a.packed = true; }), Code::format);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(code_of(&x, &weight, &result, [&](auto&, std::vector<int64_t>& sizes) { sizes[i] += 1; }), Code::format) << i;
    EXPECT_EQ(code_of(&x, &weight, &result, [&](auto&, std::vector<int64_t>& sizes) { sizes[i] = -1; }), Code::format) << i;
  }
}

}  // namespace
}  // namespace ingot::kernels
