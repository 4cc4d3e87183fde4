// Loops over blocks compared with plain ones: elements of every size, functions of double compared with long double.
#include "backend/cpu/kernels/fused/run/block_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace ingot::kernels {
namespace {

// All shapes around the squares of each instruction set, with gaps between rows and from any element on.
TEST(block_ops, transposes_of_every_element) {
  for (size_t element : {1, 2, 4, 8}) {
    for (int64_t rows : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33, 64}) {
      for (int64_t columns : {1, 2, 4, 5, 8, 12, 16, 19, 31, 64}) {
        const int64_t from_row = columns + 3, to_row = rows + 1;
        const auto size = static_cast<int64_t>(element);
        std::vector<uint8_t> from(static_cast<size_t>((rows * from_row + 1) * size)), to(static_cast<size_t>((columns * to_row + 1) * size), 99);
        for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 131 + i / 256 * 17);
        std::vector<uint8_t> want = to;
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < columns; ++c) std::memcpy(want.data() + (c * to_row + r + 1) * size, from.data() + (r * from_row + c + 1) * size, element);
        }
        block_ops().transpose_elements(element, to.data() + element, to_row, from.data() + element, from_row, rows, columns);
        ASSERT_EQ(to, want) << rows << " x " << columns << " elements of " << element << " bytes";
      }
    }
  }
}

// A number's function is the same bits alone, in a row of any length, and beside numbers for which the vectors' formula does not hold.
TEST(block_ops, functions_do_not_depend_on_neighbours) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(5);
  std::uniform_real_distribution<float> numbers(0.01f, 4000.0f);
  std::vector<float> x(333);
  for (float& v : x) v = numbers(random);
  for (size_t i = 7; i < x.size(); i += 41) x[i] = std::array{0.0f, -0.0f, -2.0f, 1e-40f, infinity, -infinity, 5000.0f, 1e9f}[i / 41 % 8];
  for (ir::Op op : {ir::Op::log, ir::Op::sin, ir::Op::cos, ir::Op::softplus}) {
    std::vector<float> all(x.size()), one(1);
    const BlockArgument in{x.data(), false};
    block_ops().map_f32(op, all.data(), &in, static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      for (bool uniform : {false, true}) {
        const BlockArgument alone{x.data() + i, uniform};
        block_ops().map_f32(op, one.data(), &alone, 1);
        EXPECT_EQ(std::memcmp(one.data(), all.data() + i, sizeof(float)), 0) << ir::name_of(op) << " of " << x[i] << " is " << one[0] << " alone and " << all[i];
      }
    }
  }
}

TEST(block_ops, extremes_of_doubles) {
  std::mt19937 random(3);
  std::normal_distribution<double> numbers;
  for (int64_t n : {1, 2, 7, 8, 31, 32, 33, 63, 64, 100, 257}) {
    std::vector<double> x(static_cast<size_t>(n));
    for (double& v : x) v = numbers(random);
    for (double special : {0.0, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
      if (special != 0) x[static_cast<size_t>(n / 2)] = special;
      EXPECT_EQ(block_ops().extreme_f64(true, x.data(), n), *std::max_element(x.begin(), x.end())) << n;
      EXPECT_EQ(block_ops().extreme_f64(false, x.data(), n), *std::min_element(x.begin(), x.end())) << n;
    }
    for (int64_t at = 0; at < n; ++at) {
      std::vector<double> y = x;
      y[static_cast<size_t>(at)] = std::numeric_limits<double>::quiet_NaN();
      EXPECT_TRUE(std::isnan(block_ops().extreme_f64(true, y.data(), n))) << at << " of " << n;
      EXPECT_TRUE(std::isnan(block_ops().extreme_f64(false, y.data(), n))) << at << " of " << n;
    }
  }
}

long double exact(ir::Op op, long double x) {
  constexpr long double pi = 3.14159265358979323846264338327950288L;
  switch (op) {
    case ir::Op::exp: return std::exp(x);
    case ir::Op::sigmoid: return 1 / (1 + std::exp(-x));
    case ir::Op::silu: return x / (1 + std::exp(-x));
    case ir::Op::tanh: return std::tanh(x);
    case ir::Op::erf: return std::erf(x);
    case ir::Op::gelu: return 0.5L * x * std::erfc(-x * std::sqrt(0.5L));
    case ir::Op::gelu_tanh: return x / (1 + std::exp(-2 * std::sqrt(2 / pi) * (x + 0.044715L * x * x * x)));
    case ir::Op::log: return std::log(x);
    case ir::Op::log1p: return std::log1p(x);
    case ir::Op::softplus: return std::max(x, 0.0L) + std::log1p(std::exp(-std::fabs(x)));
    case ir::Op::sin: return std::sin(x);
    default: return std::cos(x);
  }
}

constexpr ir::Op functions[] = {ir::Op::exp,       ir::Op::sigmoid, ir::Op::silu,  ir::Op::tanh,     ir::Op::erf, ir::Op::gelu,
                                ir::Op::gelu_tanh, ir::Op::log,     ir::Op::log1p, ir::Op::softplus, ir::Op::sin, ir::Op::cos};

// The norm of the errors compared with the norm of one rounding of the exact values, and no error beyond eight units in the last place where a function has relative accuracy.
TEST(block_ops, functions_of_double) {
  std::mt19937_64 random(1);
  for (ir::Op op : functions) {
    for (double scale : {1e-3, 0.3, 1.0, 4.0, 30.0}) {
      std::normal_distribution<double> numbers(0, scale);
      std::vector<double> x(5003), y(x.size());
      for (double& v : x) {
        v = numbers(random);
        if (op == ir::Op::log) v = std::fabs(v);
        if (op == ir::Op::log1p) v = std::fabs(v) < 1 ? v : std::fabs(v);
      }
      const BlockArgument in{x.data(), false};
      block_ops().map_f64(op, y.data(), &in, std::ssize(x));
      long double error = 0, rounding = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        // exp of a large rounded number has the errors of that number, and 1 / (1 + exp(x)) is lost where exp(x) is infinite.
        const bool loses_digits = op == ir::Op::gelu || op == ir::Op::gelu_tanh || op == ir::Op::silu || op == ir::Op::sigmoid;
        const long double want = exact(op, x[i]), off = y[i] - want, once = static_cast<double>(want) - want, by = loses_digits || want == 0 ? 1 : want;
        error += off / by * (off / by), rounding += once / by * (once / by);
        const long double a = std::fabs(x[i]), units = loses_digits ? 8 + a * a * (op == ir::Op::gelu_tanh ? a : 1) : 4;
        EXPECT_LE(std::fabs(off), std::fabs(want) * 0x1p-52L * units + (loses_digits ? 0x1p-1000L : 0x1p-1070L)) << ir::name_of(op) << "(" << x[i] << ")";
      }
      EXPECT_LE(std::sqrt(error), 2.5L * std::sqrt(rounding) + 0x1p-1070L) << ir::name_of(op) << " at " << scale;
    }
  }
}

// Special numbers, one number for all, and parts of vectors are what the scalar functions give.
TEST(block_ops, special_doubles) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const double special[] = {0.0, -0.0, inf, -inf, nan, 1, -1, 0.5, 5e-324, -5e-324, 1e-310, 1e308, -1e308, 709.9, -745.2, -708.5, 20, -20, 40, 1e-20, -1e-20, 1e6, 3e22};
  for (ir::Op op : functions) {
    for (size_t n = 1; n <= std::size(special); ++n) {
      for (bool uniform : {false, true}) {
        std::vector<double> y(n + 1, 77);
        const BlockArgument in{uniform ? special + n - 1 : special, uniform};
        block_ops().map_f64(op, y.data(), &in, static_cast<int64_t>(n));
        EXPECT_EQ(y[n], 77);
        for (size_t i = 0; i < n; ++i) {
          const double x = uniform ? special[n - 1] : special[i], got = y[i];
          const auto want = static_cast<double>(exact(op, x));
          if (std::isnan(want)) {
            EXPECT_TRUE(std::isnan(got)) << ir::name_of(op) << "(" << x << ")";
          } else if (std::isinf(want) || want == 0) {
            EXPECT_TRUE(got == want || (std::fabs(got) >= 0x1p-1023 && std::fabs(got) <= 0x1p-1022)) << ir::name_of(op) << "(" << x << "): " << got;
            const bool keeps_sign = op == ir::Op::tanh || op == ir::Op::erf || op == ir::Op::sin || op == ir::Op::log1p;
            EXPECT_TRUE(!keeps_sign || std::signbit(got) == std::signbit(want)) << ir::name_of(op);
          } else {
            EXPECT_NEAR(got, want, std::fabs(want) * 1e-12 + 1e-305) << ir::name_of(op) << "(" << x << ")";
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ingot::kernels
