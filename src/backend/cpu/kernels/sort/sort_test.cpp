// Random lines with ties, NaN and zeros of both signs, against a stable sort.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "backend/cpu/kernels/kernel_test.h"
#include "kernels/sort/run/sort_args.h"

namespace ingot::kernels {
namespace {

using ir::DType;

void compare(std::mt19937& random, DType type, int64_t length, int64_t k, bool down, bool columns) {
  auto below = [&](int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random); };
  const int64_t lines = 1 + (length > 300 ? below(30) : below(3));  // more than one task, now and then
  const uint8_t axis = columns ? 0 : 1;
  auto dims = [&](int64_t n) { return columns ? std::vector<int64_t>{n, lines} : std::vector<int64_t>{lines, n}; };
  auto at = [&](int64_t line, int64_t i) { return columns ? std::vector<int64_t>{i, line} : std::vector<int64_t>{line, i}; };
  TestTensor in(type, dims(length), {}, {}, below(2)), values(type, dims(k)), indices(DType::i64, dims(k));
  const bool floats = ir::is_float(type), ordered = below(4) == 0;
  const int64_t range = below(2) == 0 ? 5 : 120;
  in.each([&](const std::vector<int64_t>& place) {
    const auto along = static_cast<double>(place[axis]);
    double v = ordered ? std::fmod(along, 120) - 60 : static_cast<double>(below(2 * range) - range);
    if (floats && below(40) == 0) v = below(3) == 0 ? std::numeric_limits<double>::quiet_NaN() : below(2) == 0 ? -0.0 : std::numeric_limits<double>::infinity();
    in.put(place, v);
  });
  run_kernel("sort", serialise(SortArgs{axis, down}), std::vector<TestTensor*>{&in, &values, &indices}, {}, three());
  ASSERT_TRUE(values.untouched_outside());
  for (int64_t line = 0; line < lines; ++line) {
    std::vector<int64_t> order(static_cast<size_t>(length));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const double x = in.get(at(line, a)), y = in.get(at(line, b));
      const bool up = std::isnan(y) ? !std::isnan(x) : x < y, falls = std::isnan(x) ? !std::isnan(y) : x > y;
      return down ? falls : up;
    });
    for (int64_t i = 0; i < k; ++i) {
      const int64_t want = order[static_cast<size_t>(i)];
      ASSERT_EQ(static_cast<int64_t>(indices.get(at(line, i))), want) << "element " << i << " of " << k << " of " << length;
      const double x = in.get(at(line, want)), y = values.get(at(line, i));
      ASSERT_TRUE(std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y)) << y << " is not " << x;
    }
  }
}

TEST(sort, random_lines) {
  std::mt19937 random(5);
  auto below = [&](int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random); };
  const DType types[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i32, DType::i64};
  const int64_t lengths[] = {1, 2, 7, 63, 64, 65, 100, 300, 1000, 3000};
  for (int n = 0; n < 400; ++n) {
    SCOPED_TRACE(n);
    const int64_t length = lengths[below(std::ssize(lengths))], k = below(3) == 0 ? length : 1 + below(below(2) == 0 ? length : std::min<int64_t>(length, 80));
    compare(random, types[below(std::ssize(types))], length, k, below(2) == 0, below(3) == 0);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace ingot::kernels
