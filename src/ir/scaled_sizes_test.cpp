#include "ir/scaled_sizes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace ingot::ir {
namespace {

TEST(ScaledSizes, AreFloat64s) {
  constexpr int64_t most = int64_t{1} << 28;
  std::mt19937 random(3);
  for (int hundredths = 1; hundredths < 1000; ++hundredths) {
    const double factor = hundredths / 100.0;
    const std::optional<Dim> made = scaled(Dim::symbol(0), factor, {0, most});
    ASSERT_TRUE(made) << factor;
    auto check = [&](int64_t size) { ASSERT_EQ(made->evaluate(std::vector<int64_t>{size}), static_cast<int64_t>(static_cast<double>(size) * factor)) << size << " * " << factor; };
    for (int64_t size = 0; size < 300; ++size) check(size);
    for (int i = 0; i < 100; ++i) {  // products are whole at multiples of 100
      const auto size = static_cast<int64_t>(random() % (uint64_t{most} >> (i % 24)) / 100 * 100);
      for (int64_t beside : {size, size + 1, std::max<int64_t>(size - 1, 0)}) check(beside);
    }
  }
  const Dim size = Dim::symbol(0);
  EXPECT_EQ(scaled(size, 1.5, {}), floordiv(size * Dim(3), 2));
  EXPECT_EQ(scaled(size, 2.3, {4, 30}), floordiv(size * Dim(23), 10));  // 2.3 * 50 is the first product that is cut
  EXPECT_FALSE(scaled(size, 2.3, {4, 50}) == floordiv(size * Dim(23), 10));
  const std::vector<Symbol> symbols{{"s", 4, 5, 90}};
  const Range sizes = scaled(size, 0.7, {4, 90})->range(symbols);
  EXPECT_EQ(sizes.min, 2);
  EXPECT_EQ(sizes.max, 63);
  for (double factor : {0.0, -0.5, 1e10, M_PI, 1 / 5000.0, std::nan(""), HUGE_VAL}) EXPECT_FALSE(scaled(size, factor, {})) << factor;
}

}  // namespace
}  // namespace ingot::ir
