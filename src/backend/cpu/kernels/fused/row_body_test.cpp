// Random bodies over short rows, of small integers, so that every order of operations gives the same result.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cpu/kernels/fused/run/row_body.h"
#include "base/error.h"
#include "base/parallel.h"
#include "ir/scalar_functions.h"

namespace ingot::backend::cpu {
namespace {

using ir::DType;
using ir::Op;

constexpr DType f = DType::f32;

class RandomBody {
 public:
  explicit RandomBody(unsigned seed) : random_(seed), h_(pick(1, 5)), w_(pick(1, 7)), c_(columns[static_cast<size_t>(pick(0, std::size(columns) - 1))]), k_({h_, w_}, {c_}) {}

  void run() {
    const int64_t loads = pick(1, 4);
    for (int64_t n = 0; n < loads; ++n) load();
    const int64_t maps = pick(1, 10);
    for (int64_t n = 0; n < maps; ++n) map();
    k_.store(f, static_cast<Reg>(k_.body.code.size() - 1));
    const bool second = pick(0, 3) == 0;
    if (second) k_.store(f, values_.back().reg - 1);
    std::vector<std::vector<float>> results;
    for (const auto& memory : memory_) views_.push_back({const_cast<float*>(memory.data()), dims_[views_.size()], strides_[views_.size()]});
    for (int64_t n = 0; n < 1 + second; ++n) results.emplace_back(static_cast<size_t>(h_ * w_ * (c_ + 3)), std::numeric_limits<float>::quiet_NaN());
    for (auto& result : results) views_.push_back({result.data(), {h_, w_, c_}, {w_ * (c_ + 3), c_ + 3, 1}});
    auto threads = make_pool(2);
    FusedStep(k_.body, views_, *threads).run();
    for (int64_t at = 0; at < h_ * w_ * c_; ++at) {
      const int64_t row = at / c_, column = at % c_;
      check(results[0][static_cast<size_t>(row * (c_ + 3) + column)], values_.back(), row, column);
    }
    for (int64_t row = 0; row < h_ * w_; ++row) {
      for (int64_t n = c_; n < c_ + 3; ++n) ASSERT_TRUE(std::isnan(results[0][static_cast<size_t>(row * (c_ + 3) + n)])) << "written behind a row";
    }
  }

 private:
  static constexpr int64_t columns[] = {1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 48, 63, 64, 70, 100, 200, 256, 257, 300};
  struct Value {
    Reg reg;
    std::vector<float> elements;
  };
  int64_t pick(int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random_); }

  // Operands in memory: small integers, some of them NaN.
  size_t memory(std::vector<int64_t> dims, std::vector<int64_t> strides, int64_t elements) {
    std::vector<float> m(static_cast<size_t>(elements));
    for (float& x : m) x = pick(0, 60) == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(pick(-3, 3));
    memory_.push_back(std::move(m));
    dims_.push_back(std::move(dims));
    strides_.push_back(std::move(strides));
    return memory_.size() - 1;
  }

  void load() {
    Value v{0, std::vector<float>(static_cast<size_t>(h_ * w_ * c_))};
    auto each = [&](auto fn) {
      for (int64_t i = 0, at = 0; i < h_; ++i) {
        for (int64_t j = 0; j < w_; ++j) {
          for (int64_t n = 0; n < c_; ++n, ++at) v.elements[static_cast<size_t>(at)] = fn(i, j, n);
        }
      }
    };
    const int64_t kind = pick(0, 4);
    if (kind == 0) {  // guarded, like windows
      const int64_t rows = pick(1, 6), line = pick(1, 8), by[] = {pick(1, 2), pick(1, 2)}, lower[] = {pick(-1, 2), pick(-1, 2)};
      const size_t m = memory({rows, line, c_}, {line * c_, c_, 1}, rows * line * c_);
      v.reg = k_.load(f);
      Instruction& i = k_.body.code.back();
      i.lower = {lower[0], lower[1], 0};
      i.step = {by[0], by[1], 1};
      i.number = -7.0;
      each([&](int64_t a, int64_t b, int64_t n) {
        const int64_t y = a * by[0] - lower[0], x = b * by[1] - lower[1];
        return y < 0 || y >= rows || x < 0 || x >= line ? -7.0f : memory_[m][static_cast<size_t>((y * line + x) * c_ + n)];
      });
    } else if (kind == 1) {  // one element per row
      const size_t m = memory({h_, w_, 1}, {w_, 1, 0}, h_ * w_);
      v.reg = k_.load(f);
      each([&](int64_t a, int64_t b, int64_t) { return memory_[m][static_cast<size_t>(a * w_ + b)]; });
    } else if (kind == 2) {  // one row for all
      const size_t m = memory({1, 1, c_}, {0, 0, 1}, c_);
      v.reg = k_.load(f);
      each([&](int64_t, int64_t, int64_t n) { return memory_[m][static_cast<size_t>(n)]; });
    } else {
      const size_t m = memory({h_, w_, c_}, {w_ * c_, c_, 1}, h_ * w_ * c_);
      v.reg = k_.load(f);
      each([&](int64_t a, int64_t b, int64_t n) { return memory_[m][static_cast<size_t>((a * w_ + b) * c_ + n)]; });
    }
    values_.push_back(std::move(v));
  }

  void map() {
    static constexpr Op unary[] = {Op::neg, Op::abs, Op::relu}, binary[] = {Op::add, Op::sub, Op::min, Op::max, Op::max, Op::add};
    const auto any = [&]() -> const Value& { return values_[static_cast<size_t>(pick(0, static_cast<int64_t>(values_.size()) - 1))]; };
    Value v;
    const Value &a = any(), &b = any();
    if (pick(0, 4) == 0) {
      const Op op = unary[pick(0, 2)];
      for (float x : a.elements) v.elements.push_back(static_cast<float>(ir::float_unary(op, static_cast<double>(x))));
      v.reg = k_.map(op, f, {a.reg});
    } else {
      const Op op = products_ < 3 && pick(0, 3) == 0 ? Op::mul : binary[pick(0, 5)];
      products_ += op == Op::mul;
      for (size_t n = 0; n < a.elements.size(); ++n)
        v.elements.push_back(static_cast<float>(ir::float_binary(op, static_cast<double>(a.elements[n]), static_cast<double>(b.elements[n]))));
      v.reg = k_.map(op, f, {a.reg, b.reg});
    }
    values_.push_back(std::move(v));
  }

  void check(float got, const Value& want, int64_t row, int64_t column) const {
    const float w = want.elements[static_cast<size_t>(row * c_ + column)];
    ASSERT_TRUE(std::isnan(w) ? std::isnan(got) : got == w) << got << " is not " << w << " in row " << row << ", column " << column << " of " << c_;
  }

  std::mt19937 random_;
  int64_t h_, w_, c_;
  BodyBuilder k_;
  std::vector<Value> values_;
  std::vector<std::vector<float>> memory_;
  std::vector<std::vector<int64_t>> dims_, strides_;
  std::vector<FusedStep::View> views_;
  int products_ = 0;
};

TEST(row_body, random_bodies) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    RandomBody(seed).run();
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Rows selected by indices, weighted and added: a channels-last resize.
TEST(row_body, chosen_rows) {
  const int64_t h = 9, c = 24, from = 5;
  std::vector<float> table(static_cast<size_t>(from * c)), weight(static_cast<size_t>(h)), out(static_cast<size_t>(h * c));
  std::vector<int64_t> low(static_cast<size_t>(h)), high(static_cast<size_t>(h));
  for (size_t n = 0; n < table.size(); ++n) table[n] = static_cast<float>(n % 17) - 8;
  for (size_t n = 0; n < weight.size(); ++n) {
    weight[n] = static_cast<float>(n % 4);
    low[n] = static_cast<int64_t>(n / 2);
    high[n] = std::min<int64_t>(from - 1, static_cast<int64_t>(n / 2) + 1);
  }
  BodyBuilder k({h}, {c});
  const Reg a = k.load(DType::i64), x = k.load(f, {a}), w = k.load(f), b = k.load(DType::i64), y = k.load(f, {b});
  k.store(f, k.map(Op::add, f, {k.map(Op::mul, f, {x, w}), y}));
  const FusedStep::View rows{table.data(), {1, c, from}, {0, 1, c}}, numbers{weight.data(), {h, 1}, {1, 0}};
  FusedStep step(k.body, {{low.data(), {h, 1}, {1, 0}}, rows, numbers, {high.data(), {h, 1}, {1, 0}}, rows, {out.data(), {h, c}, {c, 1}}}, inline_workers());
  step.run();
  for (int64_t i = 0; i < h; ++i) {
    const auto n = static_cast<size_t>(i);
    for (int64_t j = 0; j < c; ++j) {
      const float want = table[static_cast<size_t>(low[n] * c + j)] * weight[n] + table[static_cast<size_t>(high[n] * c + j)];
      ASSERT_EQ(out[static_cast<size_t>(i * c + j)], want) << i << " " << j;
    }
  }
  low[3] = from;
  try {
    step.run();
    FAIL() << "an index out of range was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.message, "index 5 is out of range for an axis of size 5");
  }
}

// Windows 3 x 3 of every second place, at borders and completely outside: the greatest or least element, or the fill value.
TEST(row_body, pooling) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const int64_t h = 7, w = 6, rows = 6, line = 5;
  for (const int64_t c : {1, 5, 16, 64, 130, 200}) {
    for (const auto& [greatest, fill] : {std::pair{true, -infinity}, std::pair{false, infinity}, std::pair{true, 0.5f}, std::pair{false, 0.5f}}) {
      std::vector<float> x(static_cast<size_t>(h * w * c)), out(static_cast<size_t>(rows * line * c));
      for (size_t n = 0; n < x.size(); ++n) x[n] = n % 37 == 5 ? std::numeric_limits<float>::quiet_NaN() : n % 41 == 0 ? fill : static_cast<float>(n * 7 % 23) - 11;
      BodyBuilder k({rows, line}, {c});
      std::vector<Reg> loads;
      for (int64_t tap = 0; tap < 9; ++tap) {
        loads.push_back(k.load(f));
        Instruction& i = k.body.code.back();
        i.lower = {1 - tap / 3, 1 - tap % 3, 0};
        i.step = {2, 2, 1};
        i.number = static_cast<double>(fill);
      }
      Reg best = loads[0];
      for (size_t n = 1; n < loads.size(); ++n) best = k.map(greatest ? Op::max : Op::min, f, {best, loads[n]});
      k.store(f, best);
      std::vector<FusedStep::View> views(9, {x.data(), {h, w, c}, {w * c, c, 1}});
      views.push_back({out.data(), {rows, line, c}, {line * c, c, 1}});
      FusedStep(k.body, views, inline_workers()).run();
      for (int64_t n = 0; n < std::ssize(out); ++n) {
        const int64_t i = n / c / line, j = n / c % line;
        float want = greatest ? -infinity : infinity;
        for (int64_t tap = 0; tap < 9; ++tap) {
          const int64_t y = 2 * i - 1 + tap / 3, z = 2 * j - 1 + tap % 3;
          const float e = y < 0 || y >= h || z < 0 || z >= w ? fill : x[static_cast<size_t>((y * w + z) * c + n % c)];
          if (std::isnan(e) || (greatest ? e > want : e < want)) want = std::isnan(want) ? want : e;
        }
        const float got = out[static_cast<size_t>(n)];
        ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want) << got << " is not " << want << " at " << i << ", " << j << ", " << n % c << " of " << c;
      }
    }
  }
}

// Which bodies become row bodies, and which run in passes over blocks.
TEST(row_body, bodies_of_short_rows) {
  auto takes = [](int64_t columns, Op op) {
    BodyBuilder k({6}, {columns});
    const Reg x = k.load(f), y = k.load(f);
    k.store(f, k.map(op, f, ir::arity_of(op) == 2 ? std::vector<Reg>{x, y} : std::vector<Reg>{x}));
    const Emitted code = emit(k.body);
    auto program = kernels::load_program(code.code, 3, 0);
    // Rows have gaps, so that they are not merged.
    const int64_t dims[] = {6, columns}, strides[] = {columns + 1, 1};
    std::byte nothing{};
    const std::vector<TensorRef> operands(3, TensorRef{&nothing, f, 2, dims, strides});
    return kernels::row_body(kernels::bind_program(program, operands, {}, {6, columns}, true)).has_value();
  };
  EXPECT_TRUE(takes(64, Op::add));
  EXPECT_TRUE(takes(3, Op::max));
  EXPECT_TRUE(takes(128, Op::relu));
  EXPECT_FALSE(takes(129, Op::add));
  EXPECT_FALSE(takes(64, Op::exp));
}

}  // namespace
}  // namespace ingot::backend::cpu
