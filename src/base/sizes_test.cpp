#include "base/sizes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace ingot {
namespace {

using Op = SizeInstruction::Op;

// a op b for two symbols.
int64_t compute(Op op, int64_t a, int64_t b) {
  SizeProgram p{{{Op::symbol, 0}, {Op::symbol, 1}, {op, 0, 1}}};
  verify(p, 2);
  const int64_t symbols[] = {a, b};
  int64_t out[3];
  evaluate(p, symbols, out);
  return out[2];
}

TEST(Sizes, OperationsRoundAsPython) {
  for (int64_t a = -7; a <= 7; ++a) {
    for (int64_t b = -3; b <= 3; ++b) {
      EXPECT_EQ(compute(Op::add, a, b), a + b);
      EXPECT_EQ(compute(Op::sub, a, b), a - b);
      EXPECT_EQ(compute(Op::mul, a, b), a * b);
      EXPECT_EQ(compute(Op::min, a, b), std::min(a, b));
      EXPECT_EQ(compute(Op::max, a, b), std::max(a, b));
      if (b == 0) continue;
      auto floor = static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
      EXPECT_EQ(compute(Op::floordiv, a, b), floor) << a << " // " << b;
      EXPECT_EQ(compute(Op::mod, a, b), a - floor * b) << a << " % " << b;
    }
  }
}

TEST(Sizes, ConstantsAndSharedParts) {
  // (B + 3) * (B + 3)
  SizeProgram p{{{Op::symbol, 0}, {Op::constant, 0, 0, 3}, {Op::add, 0, 1}, {Op::mul, 2, 2}}};
  verify(p, 1);
  const int64_t symbols[] = {4};
  int64_t out[4];
  evaluate(p, symbols, out);
  EXPECT_EQ(out[3], 49);
}

template <class F>
Code code_of(F fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.code;
  }
  return Code::ok;
}

TEST(Sizes, OverflowAndDivisionByZeroAreTheCallers) {
  EXPECT_EQ(code_of([] { compute(Op::add, INT64_MAX, 1); }), Code::invalid_input);
  EXPECT_EQ(code_of([] { compute(Op::sub, INT64_MIN, 1); }), Code::invalid_input);
  EXPECT_EQ(code_of([] { compute(Op::mul, int64_t{1} << 32, int64_t{1} << 31); }), Code::invalid_input);
  EXPECT_EQ(code_of([] { compute(Op::floordiv, 1, 0); }), Code::invalid_input);
  EXPECT_EQ(code_of([] { compute(Op::mod, 1, 0); }), Code::invalid_input);
  EXPECT_EQ(code_of([] { compute(Op::floordiv, INT64_MIN, -1); }), Code::invalid_input);
  EXPECT_EQ(code_of([] { compute(Op::mod, INT64_MIN, -1); }), Code::invalid_input);
}

TEST(Sizes, ProgramsThatReadAheadAreDamaged) {
  auto damaged = [](SizeProgram p, size_t symbols) { return code_of([&] { verify(p, symbols); }); };
  EXPECT_EQ(damaged({{{Op::symbol, 1}}}, 1), Code::format);
  EXPECT_EQ(damaged({{{Op::add, 0, 0}}}, 0), Code::format);
  EXPECT_EQ(damaged({{{Op::constant}, {Op::add, 0, 1}}}, 0), Code::format);
  EXPECT_EQ(damaged({{{Op::constant}, {static_cast<Op>(9), 0, 0}}}, 0), Code::format);
}

}  // namespace
}  // namespace ingot
