#include "ir/dim.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"

namespace ingot::ir {
namespace {

const std::vector<Symbol> symbols{{"B", 1, 8, 64}, {"S", 0, 16, 512}, {"T", 1, 4, 9}};
const Dim B = Dim::symbol(0), S = Dim::symbol(1), T = Dim::symbol(2);

Dim read(std::string_view text) {
  return parse_dim(text, [](std::string_view name) -> SymbolId {
    for (SymbolId i = 0; i < symbols.size(); ++i) {
      if (symbols[i].name == name) return i;
    }
    fail(Code::format, "unknown size {}", name);
  });
}

TEST(Dim, SizesOfRealShapesSimplify) {
  EXPECT_EQ(floordiv(12 * B, 4), 3 * B);
  EXPECT_EQ(floordiv(B * 32, 32), B);
  EXPECT_EQ(floordiv(B * S * 384, B * S * 12), Dim(32));
  EXPECT_EQ(floordiv(B * S * 384, B * 12 * 32), S);
  EXPECT_EQ(floordiv(B * S + B, S + Dim(1)), B);
  EXPECT_EQ(floordiv(B * B - S * S, B - S), B + S);
  EXPECT_EQ(floordiv(12 * B, 8), floordiv(3 * B, 2));
  EXPECT_EQ(floordiv(4 * B + 3, 4), B);
  EXPECT_EQ(floordiv(4 * B - 1, 4), B - 1);
  EXPECT_EQ(floordiv(floordiv(S, 2), 3), floordiv(S, 6));
  EXPECT_EQ(mod(12 * B, 4), Dim(0));
  EXPECT_EQ(mod(12 * B + 7, 4), Dim(3));
  EXPECT_EQ(mod(6 * S, 4), 2 * mod(3 * S, 2));
  EXPECT_EQ(floordiv(S, 7) * 7 + mod(S, 7), S);
  EXPECT_EQ(product({B, S, 12, 32}), product({384, S, B}));
  EXPECT_EQ(min(S, S + 1), S);
  EXPECT_EQ(max(S - 2, S), S);
  EXPECT_EQ((B + S) * (B - S), B * B - S * S);
  EXPECT_FALSE(B == S);
  EXPECT_FALSE(floordiv(S, 2) * 2 == S);
}

TEST(Dim, ConstantsFollowPython) {
  EXPECT_EQ(floordiv(-7, 2).value(), -4);
  EXPECT_EQ(mod(-7, 2).value(), 1);
  EXPECT_EQ(mod(7, -2).value(), -1);
  EXPECT_EQ(ceildiv(7, 2).value(), 4);
  EXPECT_THROW(floordiv(B, 0), Error);
  EXPECT_THROW(mod(3, 0), Error);
  EXPECT_THROW(Dim(INT64_MAX) + 1, Error);
  EXPECT_THROW(Dim(INT64_MAX) * B * 2, Error);
  EXPECT_THROW(floordiv(INT64_MIN, -1), Error);
}

TEST(Dim, RangesDecide) {
  EXPECT_EQ(known_equal(B, B + 1, symbols), Truth::no);
  EXPECT_EQ(known_equal(B, S, symbols), Truth::unknown);
  EXPECT_EQ(known_equal(B, 65, symbols), Truth::no);
  EXPECT_EQ(known_less(T, 10, symbols), Truth::yes);
  EXPECT_EQ(known_less(T, 1, symbols), Truth::no);
  EXPECT_EQ(known_less(T, 9, symbols), Truth::unknown);
  EXPECT_EQ(known_less(S, S + B, symbols), Truth::yes);
  Range r = (2 * S + min(B, T) - 1).range(symbols);
  EXPECT_EQ(r.min, 0);
  EXPECT_EQ(r.max, 2 * 512 + 9 - 1);
}

TEST(Dim, TextReadsBack) {
  std::vector<Symbol> odd{{"batch size", 1, 1, 4}, {"a'b\\c>\n", 1, 1, 4}, {"_x1", 1, 1, 4}};
  Dim d = floordiv(Dim::symbol(0) * 3 - Dim::symbol(1), 7) - Dim::symbol(2) * Dim::symbol(1) + 4;
  Dim back = parse_dim(d.text(odd), [&](std::string_view name) -> SymbolId {
    for (SymbolId i = 0; i < odd.size(); ++i) {
      if (odd[i].name == name) return i;
    }
    ADD_FAILURE() << name;
    return 0;
  });
  EXPECT_EQ(d, back);
  EXPECT_EQ((B * S + 1).text(symbols), "B*S + 1");
  EXPECT_EQ((S - B).text(symbols), "-B + S");
  EXPECT_EQ(read("-9223372036854775808").value(), INT64_MIN);
  EXPECT_EQ(read(Dim(INT64_MIN).text(symbols)).value(), INT64_MIN);
  EXPECT_EQ(read((B + INT64_MIN).text(symbols)), B + INT64_MIN);
  for (const char* bad : {"", "B +", "B B", "(B", "nope", "floordiv(B)", "floordiv(B, 0)", "log(B, 2)", "99999999999999999999", "'B", "B*", "1.5", "--1"}) {
    EXPECT_THROW(read(bad), Error) << bad;
  }
  std::string deep(5000, '(');
  EXPECT_THROW(read(deep), Error);
  std::string wide = "(B+S+T)";
  for (int i = 0; i < 100; ++i) wide += "*(B+S+T)";
  EXPECT_THROW(read(wide), Error);  // and soon
}

// A random expression, built together with its value under one assignment.
struct Sample {
  Dim dim;
  int64_t value;
};

Sample grow(std::mt19937& random, const std::vector<int64_t>& values, int depth) {
  auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  if (depth == 0 || pick(4) == 0) {
    if (pick(2) == 0) {
      int64_t c = pick(13) - 4;
      return {c, c};
    }
    auto s = static_cast<SymbolId>(pick(3));
    return {Dim::symbol(s), values[s]};
  }
  Sample a = grow(random, values, depth - 1), b = grow(random, values, depth - 1);
  auto div = [](int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); };
  switch (pick(7)) {
    case 0: return {a.dim + b.dim, a.value + b.value};
    case 1: return {a.dim - b.dim, a.value - b.value};
    case 2: return {a.dim * b.dim, a.value * b.value};
    case 3: return {min(a.dim, b.dim), std::min(a.value, b.value)};
    case 4: return {max(a.dim, b.dim), std::max(a.value, b.value)};
    default: break;
  }
  // Division by what may be zero is an error by design; take a divisor that is not.
  Sample d = pick(2) == 0 ? Sample{pick(6) + 1, 0} : Sample{B + pick(3), 0};
  d.value = d.dim.evaluate(values);
  if (pick(2) == 0) return {floordiv(a.dim, d.dim), div(a.value, d.value)};
  return {mod(a.dim, d.dim), a.value - div(a.value, d.value) * d.value};
}

TEST(Dim, ProductsWithFloats) {
  int followed = 0;
  for (int hundredths = 1; hundredths < 1000; ++hundredths) {
    const double factor = hundredths / 100.0;
    const std::optional<Dim> made = scaled(Dim::symbol(0), factor);
    bool all = true;
    for (int64_t size = 0; size < 20000; ++size) {
      const bool same = made && made->evaluate(std::vector<int64_t>{size}) == static_cast<int64_t>(static_cast<double>(size) * factor);
      all = all && same;
    }
    EXPECT_EQ(all, made.has_value()) << factor;
    followed += all;
  }
  EXPECT_GT(followed, 750);
  const Dim size = Dim::symbol(0);
  EXPECT_EQ(scaled(size, 1.5), floordiv(size * Dim(3), 2));
  EXPECT_EQ(scaled(size, 1 / 3.0), floordiv(size, 3));
  EXPECT_EQ(scaled(size, 2), size * Dim(2));
  for (double factor : {0.7, 0.0, -0.5, 1e10, M_PI, 1 / 5000.0, std::nan(""), HUGE_VAL}) EXPECT_FALSE(scaled(size, factor)) << factor;
}

TEST(Dim, NormalFormKeepsTheValue) {
  std::mt19937 random(7);
  for (int i = 0; i < 4000; ++i) {
    std::vector<int64_t> values{1 + static_cast<int64_t>(random() % 64), static_cast<int64_t>(random() % 513), 1 + static_cast<int64_t>(random() % 9)};
    Sample s = grow(random, values, 4);
    std::string text = s.dim.text(symbols);
    ASSERT_EQ(s.dim.evaluate(values), s.value) << text;
    Dim back = read(text);
    ASSERT_EQ(back, s.dim) << text << " read as " << back.text(symbols);
    ASSERT_EQ(back.hash(), s.dim.hash()) << text;
    Range r = s.dim.range(symbols);
    ASSERT_LE(r.min, s.value) << text;
    ASSERT_GE(r.max, s.value) << text;
    Dim fixed = s.dim.substitute([&](SymbolId id) { return std::optional<Dim>(values[id]); });
    ASSERT_EQ(fixed, Dim(s.value)) << text;
  }
}

}  // namespace
}  // namespace ingot::ir
