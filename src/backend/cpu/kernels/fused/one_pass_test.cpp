// Bodies that run as one pass over memory, compared with the same arithmetic element by element.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cpu/kernels/kernel_test.h"

namespace ingot::backend::cpu {
namespace {

using ir::DType;
using ir::Op;
using kernels::TestTensor;

constexpr int64_t lengths[] = {1, 5, 63, 64, 100, 1000, 5003};

// Small numbers, some of them special.
void fill(TestTensor& t, std::mt19937& random) {
  const double special[] = {0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 7};
  t.each([&](const std::vector<int64_t>& at) {
    if (!ir::is_float(t.dtype)) return t.put(at, static_cast<double>(random() % 100));
    t.put(at, random() % 16 == 0 ? special[random() % 8] : (static_cast<double>(random() % 4001) - 2000) / 64);
  });
}

FusedStep::View view(TestTensor& t) { return {t.ref().data, t.dims, t.strides}; }

void run(const FusedBody& body, std::vector<TestTensor*> operands) {
  std::vector<FusedStep::View> views;
  for (TestTensor* t : operands) views.push_back(view(*t));
  FusedStep(body, views, inline_workers()).run();
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

// As the type's memory has it.
double stored(DType t, double v) {
  TestTensor one(t, {1});
  one.put({0}, v);
  return one.get({0});
}

TEST(one_pass, limits_of_every_type) {
  std::mt19937 random(1);
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8, DType::i32, DType::i64}) {
    for (int64_t n : lengths) {
      TestTensor x(t, {n}), y(t, {n});
      fill(x, random);
      BodyBuilder b({}, {n});
      const DType type = ir::compute_type(t);
      const Reg low = b.number(ir::is_float(t) ? ir::Scalar(-3.5) : ir::Scalar(int64_t{20}), type),
                high = b.number(ir::is_float(t) ? ir::Scalar(11.0) : ir::Scalar(int64_t{50}), type);
      b.store(t, b.map(Op::min, type, {high, b.map(Op::max, type, {low, b.load(t)})}));
      run(b.body, {&x, &y});
      const double from = ir::is_float(t) ? -3.5 : 20, to = ir::is_float(t) ? 11 : 50;
      for (int64_t i = 0; i < n; ++i) {
        const double v = x.get({i}), want = std::isnan(v) ? v : std::min(std::max(v, from), to);
        ASSERT_TRUE(same(y.get({i}), want)) << ir::name_of(t) << " " << v << ": " << y.get({i});
      }
      ASSERT_TRUE(y.untouched_outside());
    }
  }
}

// Of two zeros min and max give the second, in one pass as in two operations.
TEST(one_pass, limits_keep_the_sign_of_zero) {
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (bool number_first : {true, false}) {
      TestTensor x(t, {70}), y(t, {70});
      for (int64_t i = 0; i < 70; ++i) x.put({i}, i % 2 == 0 ? 0.0 : -0.0);
      BodyBuilder b({}, {70});
      const DType type = ir::compute_type(t);
      const Reg low = b.number(ir::Scalar(0.0), type), high = b.number(ir::Scalar(6.0), type), of = b.load(t);
      b.store(t, b.map(Op::min, type, {high, number_first ? b.map(Op::max, type, {low, of}) : b.map(Op::max, type, {of, low})}));
      run(b.body, {&x, &y});
      for (int64_t i = 0; i < 70; ++i) ASSERT_EQ(std::signbit(y.get({i})), number_first && i % 2 != 0) << ir::name_of(t) << " " << i;
    }
  }
}

TEST(one_pass, cubes) {
  std::mt19937 random(2);
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (int64_t n : lengths) {
      TestTensor x(t, {n}), y(t, {n});
      fill(x, random);
      BodyBuilder b({}, {n});
      const DType type = ir::compute_type(t);
      const Reg v = b.load(t);
      b.store(t, b.map(Op::mul, type, {b.map(Op::mul, type, {v, v}), v}));
      run(b.body, {&x, &y});
      for (int64_t i = 0; i < n; ++i) {
        const double v64 = x.get({i});
        const auto v32 = static_cast<float>(v64);
        ASSERT_TRUE(same(y.get({i}), t == DType::f64 ? v64 * v64 * v64 : stored(t, static_cast<double>(v32 * v32 * v32)))) << ir::name_of(t) << " " << v64;
      }
      ASSERT_TRUE(y.untouched_outside());
    }
  }
}

float computed(Op op, float a, float b) {
  switch (op) {
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div: return a / b;
    case Op::max: return std::isnan(a) || a > b ? a : b;
    case Op::min: return std::isnan(a) || a < b ? a : b;
    case Op::neg: return -a;
    case Op::abs: return std::fabs(a);
    case Op::relu: return a < 0 ? 0.0f : a;
    default: return std::sqrt(a);
  }
}

// Blocks and numbers on either side. A row of the second operand is the same for all rows, or a column.
TEST(one_pass, halves) {
  std::mt19937 random(3);
  for (DType t : {DType::f16, DType::bf16}) {
    for (Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::max, Op::min, Op::neg, Op::abs, Op::relu, Op::sqrt}) {
      for (int64_t n : lengths) {
        for (int form = 0; form < (ir::arity_of(op) == 1 ? 1 : 5); ++form) {  // block and block, row, column; number and block, block and number
          TestTensor x(t, {3, n}), z(t, {form == 1 ? 1 : 3, form == 2 ? 1 : n}), y(t, {3, n});
          fill(x, random);
          fill(z, random);
          BodyBuilder b({3}, {n});
          std::vector<TestTensor*> operands{&x};
          std::vector<Reg> in{b.load(t)};
          if (ir::arity_of(op) == 2 && form < 3) in.push_back(b.load(t)), operands.push_back(&z);
          if (form >= 3) in.insert(form == 3 ? in.begin() : in.end(), b.number(ir::Scalar(2.3), DType::f32));
          b.store(t, b.map(op, DType::f32, in));
          operands.push_back(&y);
          run(b.body, operands);
          y.each([&](const std::vector<int64_t>& at) {
            const auto v = static_cast<float>(x.get(at)), w = static_cast<float>(z.get({form == 1 ? 0 : at[0], form == 2 ? 0 : at[1]}));
            const float left = form == 3 ? 2.3f : v, right = form == 3 ? v : form == 4 ? 2.3f : w, want = computed(op, left, right);
            const bool zeros = want == 0 && (op == Op::max || op == Op::min);  // either zero
            EXPECT_TRUE(same(y.get(at), stored(t, static_cast<double>(want))) || (zeros && y.get(at) == 0))
                << ir::name_of(op) << " " << ir::name_of(t) << " " << left << " " << right;
          });
          ASSERT_FALSE(HasFailure());
          ASSERT_TRUE(y.untouched_outside());
        }
      }
    }
  }
}

// Any byte but 0 is true.
TEST(one_pass, bools_as_they_are) {
  const uint8_t bytes[] = {0, 1, 2, 255, 128};
  for (int64_t n : lengths) {
    std::vector<uint8_t> x(static_cast<size_t>(n)), z(x.size()), y(x.size());
    std::mt19937 random(4);
    for (uint8_t& v : x) v = bytes[random() % 5];
    for (uint8_t& v : z) v = bytes[random() % 5];
    for (Op op : {Op::bit_and, Op::bit_or, Op::bit_xor, Op::bit_not, Op::logical_not}) {
      BodyBuilder b({}, {n});
      std::vector<Reg> in{b.load(DType::b8)};
      std::vector<FusedStep::View> views{{x.data(), {n}, {1}}};
      if (ir::arity_of(op) == 2) in.push_back(b.load(DType::b8)), views.push_back({z.data(), {n}, {1}});
      b.store(DType::b8, b.map(op, DType::b8, in));
      views.push_back({y.data(), {n}, {1}});
      FusedStep(b.body, views, inline_workers()).run();
      for (size_t i = 0; i < x.size(); ++i) {
        const bool a = x[i] != 0, c = z[i] != 0, want = op == Op::bit_and ? a && c : op == Op::bit_or ? a || c : op == Op::bit_xor ? a != c : !a;
        ASSERT_EQ(y[i], want) << ir::name_of(op) << " " << int{x[i]} << " " << int{z[i]};
      }
    }
    for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8}) {
      TestTensor u(t, {n}), out(t, {n});
      fill(u, random);
      BodyBuilder b({}, {n});
      const DType type = ir::compute_type(t);
      const Reg condition = b.load(DType::b8), value = b.load(t);
      b.store(t, b.map(Op::select, type, {condition, value, b.number(ir::is_float(t) ? ir::Scalar(-1.1) : ir::Scalar(int64_t{9}), type)}));
      FusedStep(b.body, {{x.data(), {n}, {1}}, view(u), view(out)}, inline_workers()).run();
      const double other = ir::is_float(t) ? stored(t, t == DType::f64 ? -1.1 : static_cast<double>(-1.1f)) : 9;
      for (int64_t i = 0; i < n; ++i) ASSERT_TRUE(same(out.get({i}), x[static_cast<size_t>(i)] != 0 ? u.get({i}) : other)) << ir::name_of(t);
    }
  }
}

// A triangle of a matrix: the place along the row, plus or minus the row, compared with a number, on either side.
TEST(one_pass, places) {
  for (Op op : {Op::lt, Op::le, Op::gt, Op::ge}) {
    for (int form = 0; form < 4; ++form) {  // place; place + row; place - row; row - place
      for (bool swapped : {false, true}) {
        for (int64_t bound : {INT64_MIN / 4, int64_t{-40}, int64_t{-1}, int64_t{0}, int64_t{3}, int64_t{1030}, INT64_MAX / 4}) {
          for (int64_t n : {int64_t{1}, int64_t{70}, int64_t{4100}}) {
            TestTensor out(DType::i8, {5, n});
            BodyBuilder b({5}, {n});
            const Reg place = b.index(1), row = b.index(0);
            const Reg x = form == 0   ? place
                          : form == 1 ? b.map(Op::add, DType::i64, {place, row})
                          : form == 2 ? b.map(Op::sub, DType::i64, {place, row})
                                      : b.map(Op::sub, DType::i64, {row, place});
            const Reg number = b.number(ir::Scalar(bound), DType::i64);
            const Reg c = b.map(op, DType::b8, swapped ? std::vector<Reg>{number, x} : std::vector<Reg>{x, number});
            b.store(DType::i8, b.map(Op::cast, DType::i8, {c}));
            run(b.body, {&out});
            out.each([&](const std::vector<int64_t>& at) {
              const int64_t v = form == 0 ? at[1] : form == 1 ? at[1] + at[0] : form == 2 ? at[1] - at[0] : at[0] - at[1], left = swapped ? bound : v, right = swapped ? v : bound;
              const bool want = op == Op::lt ? left < right : op == Op::le ? left <= right : op == Op::gt ? left > right : left >= right;
              EXPECT_EQ(out.get(at), want) << ir::name_of(op) << " form " << form << " bound " << bound << " at " << at[0] << ", " << at[1];
            });
            ASSERT_FALSE(HasFailure());
          }
        }
      }
    }
  }
}

// What an ordering of places takes may be read elsewhere too.
TEST(one_pass, places_that_are_read_twice) {
  constexpr int64_t n = 300;
  TestTensor out(DType::i64, {4, n});
  BodyBuilder b({4}, {n});
  const Reg difference = b.map(Op::sub, DType::i64, {b.index(1), b.index(0)});
  const Reg c = b.map(Op::lt, DType::b8, {difference, b.number(ir::Scalar(int64_t{100}), DType::i64)});
  b.store(DType::i64, b.map(Op::select, DType::i64, {c, difference, b.number(ir::Scalar(int64_t{-7}), DType::i64)}));
  run(b.body, {&out});
  out.each([&](const std::vector<int64_t>& at) { EXPECT_EQ(out.get(at), at[1] - at[0] < 100 ? at[1] - at[0] : -7); });
}

// Rows and columns of halves and doubles, with gaps between rows.
TEST(one_pass, sums) {
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3, 1030}, {2, 5003}, {70, 7}, {130, 33}, {40, 300}, {1000, 129}}) {
      TestTensor x(t, {rows, columns}, {}, {}, 3);
      x.each([&](const std::vector<int64_t>& at) { x.put(at, static_cast<double>((at[0] * 37 + at[1] * 11) % 64) / 8 - 2); });
      const DType type = ir::compute_type(t);
      for (bool of_rows : {true, false}) {
        const int64_t kept = of_rows ? rows : columns, summed = of_rows ? columns : rows;
        TestTensor y(type, {kept, 1});
        BodyBuilder b({kept}, {summed});
        b.store(type, b.reduce(Reduction::sum, type, b.load(t)));
        FusedStep::View from = view(x);
        if (!of_rows) std::swap(from.dims[0], from.dims[1]), std::swap(from.strides[0], from.strides[1]);
        FusedStep(b.body, {from, view(y)}, inline_workers()).run();
        for (int64_t k = 0; k < kept; ++k) {
          double want = 0;
          for (int64_t i = 0; i < summed; ++i) want += of_rows ? x.get({k, i}) : x.get({i, k});
          ASSERT_EQ(y.get({k, 0}), want) << ir::name_of(t) << " " << rows << " x " << columns << (of_rows ? " rows" : " columns");
        }
      }
    }
  }
}

}  // namespace
}  // namespace ingot::backend::cpu
