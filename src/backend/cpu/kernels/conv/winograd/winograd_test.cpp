// Convolutions by Winograd's transformation, and of few columns, against plain loops; the numbers are small integers, so results must be equal.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cpu/kernels/conv/conv_test.h"
#include "backend/cpu/kernels/conv/winograd/run/winograd.h"
#include "backend/cpu/kernels/kernel_test.h"
#include "backend/cpu/run/isa.h"
#include "base/error.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::kernels {
namespace {

using ir::DType;

// x [N, D, H, W, C] with a kernel [T, 3, 3, C, O]. Indices: n, d, i, j; t, r, s, c.
struct Volume {
  int64_t n, d, h, w, c, o, depth = 1, pad = 1;
  enum End { plain, scale_bias_relu, residual, twice } end = plain;
  int64_t planes() const { return d + 2 * (depth / 2) - depth + 1; }
  int64_t height() const { return h + 2 * pad - 2; }
  int64_t width() const { return w + 2 * pad - 2; }
  int64_t rows() const { return n * planes() * height() * width(); }
  int64_t k() const { return depth * 9 * c; }
};

const std::vector<int64_t> steps = {1, 0, 0, 0, 0, 0, 0, 0, /**/ 0, 1, 0, 0, 1, 0, 0, 0, /**/ 0, 0, 1, 0, 0, 1, 0, 0, /**/ 0, 0, 0, 1, 0, 0, 1, 0, /**/ 0, 0, 0, 0, 0, 0, 0, 1};
std::vector<int64_t> map_sizes(const Volume& v) { return {v.n, v.planes(), v.height(), v.width(), v.depth, 3, 3, v.c, 0, -(v.depth / 2), -v.pad, -v.pad, 0}; }

backend::cpu::Emitted body_of(const Volume& v) {
  backend::cpu::BodyBuilder body({v.rows()}, {v.o});
  backend::Instruction accumulator{};
  accumulator.kind = backend::Instruction::Kind::accumulator;
  accumulator.dtype = DType::f32;
  backend::Reg r = body.push(accumulator);
  if (v.end == Volume::scale_bias_relu) r = body.map(ir::Op::mul, DType::f32, {r, body.load(DType::f32)});
  if (v.end == Volume::scale_bias_relu) r = body.map(ir::Op::relu, DType::f32, {body.map(ir::Op::add, DType::f32, {r, body.load(DType::f32)})});
  if (v.end == Volume::residual) r = body.map(ir::Op::add, DType::f32, {r, body.load(DType::f32)});
  if (v.end == Volume::twice) r = body.map(ir::Op::mul, DType::f32, {r, r});
  body.store(DType::f32, r);
  return backend::cpu::emit(body.body);
}

struct Problem {
  Volume v;
  TestTensor x, weight, scale, bias, residual;
  explicit Problem(const Volume& v)
      : v(v),
        x(DType::f32, {v.n, v.d, v.h, v.w, v.c}),
        weight(DType::f32, {v.k(), v.o}),
        scale(DType::f32, {1, v.o}),
        bias(DType::f32, {1, v.o}),
        residual(DType::f32, {v.rows(), v.o}) {
    uint32_t seed = 0;
    for (TestTensor* t : {&x, &weight, &scale, &bias, &residual}) fill_with_integers(*t, ++seed);
  }

  // All results, row by row.
  std::vector<double> wanted() const {
    const std::vector<double> from = x.values(), by = weight.values(), scales = scale.values(), biases = bias.values(), more = residual.values();
    std::vector<double> sums(static_cast<size_t>(v.rows() * v.o), 0);
    for (int64_t row = 0; row < v.rows(); ++row) {
      const int64_t j = row % v.width(), i = row / v.width() % v.height(), d = row / v.width() / v.height() % v.planes(), n = row / v.width() / v.height() / v.planes();
      double* const sum = &sums[static_cast<size_t>(row * v.o)];
      for (int64_t tap = 0; tap < v.depth * 9; ++tap) {
        const int64_t z = d + tap / 9 - v.depth / 2, y = i + tap / 3 % 3 - v.pad, a = j + tap % 3 - v.pad;
        if (z < 0 || z >= v.d || y < 0 || y >= v.h || a < 0 || a >= v.w) continue;
        for (int64_t c = 0; c < v.c; ++c) {
          const double element = from[static_cast<size_t>((((n * v.d + z) * v.h + y) * v.w + a) * v.c + c)];
          for (int64_t o = 0; o < v.o; ++o) sum[o] += element * by[static_cast<size_t>((tap * v.c + c) * v.o + o)];
        }
      }
      for (int64_t o = 0; o < v.o; ++o) {
        const auto column = static_cast<size_t>(o);
        if (v.end == Volume::scale_bias_relu) sum[o] = std::isnan(sum[o]) ? sum[o] : std::max(sum[o] * scales[column] + biases[column], 0.0);
        if (v.end == Volume::residual) sum[o] += more[static_cast<size_t>(row * v.o) + column];
        if (v.end == Volume::twice) sum[o] *= sum[o];
      }
    }
    return sums;
  }

  void check(std::initializer_list<Workers*> all) {
    const std::vector<double> results = wanted();
    for (Workers* workers : all) check(*workers, results);
  }

  void check(Workers& workers, const std::vector<double>& results) {
    SCOPED_TRACE(fmt::format("{}x{}x{}x{}x{} to {}, depth {}, pad {}, end {}", v.n, v.d, v.h, v.w, v.c, v.o, v.depth, v.pad, static_cast<int>(v.end)));
    TestTensor panels(DType::f32, {storage_bytes(panels_of(DType::f32), std::array{v.k(), v.o}) / 4});
    run_kernel("matmul_pack", {}, {&weight, &panels}, {v.k(), v.o}, workers);
    backend::cpu::Emitted code = body_of(v);
    std::vector<int64_t> sizes = {v.rows(), v.o, v.k()};
    for (int64_t s : map_sizes(v)) sizes.push_back(s);
    for (const ir::Dim& d : code.sizes) sizes.push_back(d.value());
    std::vector<TestTensor*> operands = {&x, &panels};
    if (v.end == Volume::scale_bias_relu) operands.insert(operands.end(), {&scale, &bias});
    if (v.end == Volume::residual) operands.push_back(&residual);
    family.each([&](std::string_view kernel) {
      SCOPED_TRACE(kernel);
      TestTensor out(DType::f32, {v.rows(), v.o});
      std::vector<TestTensor*> with_result = operands;
      with_result.push_back(&out);
      if (!run_kernel(kernel, serialise(MatmulArgs{true, 0, code.code, false, GemmMap{5, 4, 4, steps}}), with_result, sizes, workers)) return false;
      const std::vector<double> found = out.values();
      int wrong = 0;
      for (size_t i = 0; i < found.size(); ++i) wrong += !(found[i] == results[i] || (std::isnan(found[i]) && std::isnan(results[i])));
      EXPECT_EQ(wrong, 0);
      EXPECT_TRUE(out.untouched_outside());
      return true;
    });
  }
  ConvKernels family;

  // The step's plan for this many workers.
  std::optional<WinogradPlan> plan(int64_t workers) {
    const IndexMap map = resolve_index_map("a convolution", steps, x.ref(), map_sizes(v));
    const int64_t panel = 2 * lanes(v.o);
    return winograd_plan(map, 4, conv::lines_of(map, 0, 4, SIZE_MAX), {1, 0, v.o, (v.o + panel - 1) / panel, panel, lanes(v.o), workers});
  }
  static int64_t lanes(int64_t columns) { return direct_tiles(false, columns).lanes; }
};

TEST(winograd, equals_windows_in_place) {
  auto pool = make_pool(2);
  for (Volume::End end : {Volume::plain, Volume::scale_bias_relu, Volume::residual, Volume::twice}) {
    for (const Volume& v :
         {Volume{1, 1, 16, 16, 32, 32, 1, 1, end}, Volume{2, 1, 13, 11, 40, 48, 1, 1, end}, Volume{1, 1, 15, 18, 64, 70, 1, 0, end}, Volume{1, 1, 9, 12, 33, 64, 1, 2, end},
          Volume{1, 6, 12, 12, 16, 16, 3, 1, end}, Volume{2, 5, 9, 14, 24, 40, 3, 1, end}, Volume{1, 5, 14, 12, 32, 32, 1, 1, end}}) {
      Problem p(v);
      EXPECT_TRUE(p.plan(1).has_value());
      p.check({&inline_workers(), pool.get(), &three()});
      EXPECT_EQ(p.family.ran("conv_winograd"), 3);
    }
  }
}

TEST(winograd, blocks) {
  auto pool = make_pool(2);
  Problem tall({1, 1, 120, 9, 64, 32});  // several blocks of an image
  EXPECT_GT(tall.plan(1)->blocks, 1);
  tall.check({&inline_workers(), pool.get()});
  Problem wide({1, 1, 14, 14, 256, 192});  // a group of panels for each worker; channels are two sums
  EXPECT_TRUE(wide.plan(2)->by_columns);
  EXPECT_FALSE(wide.plan(2)->keeps_weights);
  wide.check({&inline_workers(), pool.get()});
}

// Elements that are not finite reach the outputs whose windows have them, and no others.
TEST(winograd, infinities_stay_in_their_windows) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (Volume::End end : {Volume::plain, Volume::residual}) {
    Problem p({1, 3, 16, 15, 32, 40, 3, 1, end});
    ASSERT_TRUE(p.plan(1).has_value());
    p.x.put({0, 1, 4, 6, 3}, infinity);
    p.x.put({0, 1, 9, 0, 7}, -infinity);
    p.x.put({0, 2, 15, 14, 7}, std::numeric_limits<double>::quiet_NaN());
    p.x.put({0, 0, 12, 8, 2}, 3e38);  // finite, but not all sums with it
    p.x.put({0, 0, 12, 9, 2}, 3e38);
    for (int64_t o = 0; o < 40; ++o) {
      for (int64_t t = 0; t < 27; ++t) p.weight.put({t * 32 + 2, o}, 0);
    }
    p.check({&inline_workers()});
  }
}

// Vectors along the channels, where there are few columns.
TEST(conv, few_columns) {
  auto pool = make_pool(2);
  for (Volume::End end : {Volume::plain, Volume::scale_bias_relu, Volume::residual, Volume::twice}) {
    for (int64_t o : {1, 2, 3, 4}) {
      for (const Volume& v : {Volume{2, 1, 13, 11, 16, o, 1, 1, end}, Volume{1, 3, 5, 9, 48, o, 3, 3, end}, Volume{1, 1, 9, 10, 272, o, 1, 0, end}})
        Problem(v).check({&inline_workers(), pool.get()});
    }
  }
}

TEST(winograd, where_it_can) {
  EXPECT_TRUE(Problem({1, 1, 56, 56, 64, 64}).plan(1).has_value());
  EXPECT_FALSE(Problem({1, 1, 32, 32, 3, 64}).plan(1).has_value());  // few channels
  EXPECT_FALSE(Problem({1, 1, 4, 5000, 64, 16}).plan(1).has_value());  // a block would be one row of 10 MB
}

// What a kernel says that it takes decides between it and its alternatives.
TEST(winograd, pays_for_windows_that_are_mostly_inside) {
  auto ratio = [](Problem p) {
    const IndexMap map = resolve_index_map("a convolution", steps, p.x.ref(), map_sizes(p.v));
    const int64_t lanes = Problem::lanes(p.v.o);
    const conv::Cpu cpu{machine_named(lanes == 16 ? "cpu:avx512" : lanes == 8 ? "cpu:avx2" : "cpu:portable"), lanes, 1};
    return cost_of_winograd(*p.plan(1), cpu) / conv::cost_of_tiles(conv::sizes_of(map, 0, 4, SIZE_MAX, p.v.o), cpu);
  };
  EXPECT_LT(ratio(Problem({1, 1, 56, 56, 64, 64})), 0.8);
  EXPECT_GT(ratio(Problem({1, 1, 3, 3, 64, 64})), 1);
}

}  // namespace
}  // namespace ingot::kernels
