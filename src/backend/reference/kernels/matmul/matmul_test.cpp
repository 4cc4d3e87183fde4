// Products with optional operands, by sites that are written by hand: scales and zeros of groups along K, and rows of experts.
#include "backend/compiler.h"
#include "backend/reference/step_test.h"
#include "base/error.h"

namespace ingot::backend::reference {
namespace {

using ir::DType;

struct Case {
  DType numbers = DType::i8;
  int64_t m = 7, n = 5, k = 12;
  int64_t group = 0;               // 0: no scales
  bool zeros = false;
  std::vector<int64_t> row_ends = {};  // of experts; empty: none
  DType ends = DType::i64;
};

// B as the definition says it: (number - zero) * scale, of the expert that the row belongs to; no expert: 0.
void check(const Case& c) {
  SCOPED_TRACE(fmt::format("{} x {} x {}, groups of {}{}, {} experts", c.m, c.n, c.k, c.group, c.zeros ? " with zeros" : "", c.row_ends.size()));
  const auto experts = static_cast<int64_t>(c.row_ends.size());
  auto of_experts = [&](std::vector<int64_t> dims) {
    if (experts > 0) dims.insert(dims.begin(), experts);
    return dims;
  };
  const int64_t groups = c.group > 0 ? c.k / c.group : 1;
  TestTensor a(DType::f32, {c.m, c.k}, {1, 0}), b(c.numbers, of_experts({c.k, c.n}), {}, {}, 3), scale(DType::f32, of_experts({groups, c.n})),
      zero(DType::i8, of_experts({groups, c.n}));
  TestTensor ends(c.ends, {std::max<int64_t>(experts, 1)}), bias(DType::f32, {1, c.n}, {}, {0}), y(DType::f32, {c.m, c.n});
  uint32_t seed = 0;
  for (TestTensor* t : {&a, &b, &scale, &zero, &bias}) kernels::fill_with_integers(*t, ++seed);
  for (int64_t e = 0; e < experts; ++e) ends.put({e}, static_cast<double>(c.row_ends[static_cast<size_t>(e)]));

  const FusedBody body = sum_plus_bias({c.m}, c.n);
  HandmadeStep step;
  step.site.kernel = GemmAttributes{DType::f32};
  step.site.body = &body;
  std::optional<ir::Encoding> encoding;
  if (c.group > 0) encoding = ir::Encoding{.storage = c.numbers, .block = ir::Encoding::Block{c.group, 1}, .zero = c.zeros};
  step.add(Role::a, a).add(Role::b, b, encoding);
  if (c.group > 0) step.add(Role::scale, scale);
  if (c.zeros) step.add(Role::zero, zero);
  if (experts > 0) step.add(Role::row_ends, ends);
  step.add(Role::body, bias).add(Role::output, y);
  ASSERT_EQ(step.refusal(), "");
  step.run();

  auto at = [&](const TestTensor& t, int64_t expert, int64_t row, int64_t column) { return experts > 0 ? t.get({expert, row, column}) : t.get({row, column}); };
  for (int64_t i = 0; i < c.m; ++i) {
    int64_t e = 0;
    while (e < experts && i >= c.row_ends[static_cast<size_t>(e)]) ++e;
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = bias.get({0, j});
      for (int64_t q = 0; q < c.k && (experts == 0 || e < experts); ++q) {
        double factor = at(b, e, q, j);
        if (c.zeros) factor -= at(zero, e, q / c.group, j);
        if (c.group > 0) factor *= at(scale, e, q / c.group, j);
        sum += a.get({i, q}) * factor;
      }
      ASSERT_EQ(y.get({i, j}), sum) << i << ", " << j;
    }
  }
  EXPECT_TRUE(y.untouched_outside());
}

TEST(ReferenceMatmul, ScalesOfGroupsAlongK) {
  for (int64_t group : {1, 3, 4, 12}) {
    for (bool zeros : {false, true}) check({.group = group, .zeros = zeros});
  }
}

TEST(ReferenceMatmul, RowsOfExperts) {
  check({.numbers = DType::f32, .row_ends = {3, 4, 7}});
  check({.numbers = DType::f32, .row_ends = {0, 7, 7}, .ends = DType::i32});  // the first and the last expert have no rows
  check({.numbers = DType::f32, .row_ends = {2, 5}});                         // nobody has the last two rows
  check({.numbers = DType::f32, .row_ends = {7}});
}

TEST(ReferenceMatmul, ExpertsWithScalesOfGroups) { check({.group = 4, .zeros = true, .row_ends = {1, 1, 6, 7}}); }

// An operand that the encoding does not say, or lacks, is refused when the plan is made.
TEST(ReferenceMatmul, ScalesAndTheirEncodingBelongTogether) {
  TestTensor a(DType::f32, {2, 4}), b(DType::i8, {4, 3}), scale(DType::f32, {2, 3}), bias(DType::f32, {1, 3}, {}, {0}), y(DType::f32, {2, 3});
  const FusedBody body = sum_plus_bias({2}, 3);
  auto refusal = [&](std::optional<ir::Encoding> encoding, bool scaled) {
    HandmadeStep step;
    step.site.kernel = GemmAttributes{DType::f32};
    step.site.body = &body;
    step.add(Role::a, a).add(Role::b, b, encoding);
    if (scaled) step.add(Role::scale, scale);
    step.add(Role::body, bias).add(Role::output, y);
    return step.refusal();
  };
  const ir::Encoding grouped{.storage = DType::i8, .block = ir::Encoding::Block{2, 1}};
  EXPECT_EQ(refusal(grouped, true), "");
  EXPECT_EQ(refusal(grouped, false), "scales and zeros of groups are operands");
  EXPECT_EQ(refusal(ir::Encoding{.storage = DType::i8}, true), "scales and zeros of groups are operands");
  ir::Encoding with_zero = grouped;
  with_zero.zero = true;
  EXPECT_EQ(refusal(with_zero, true), "scales and zeros of groups are operands");
}

// No other backend has a kernel that reads them, of experts or not; none takes them for an ordinary product.
TEST(ReferenceMatmul, OthersRefuseScalesOfGroups) {
  TestTensor a(DType::f16, {16, 32}), b(DType::i8, {32, 8}), scale(DType::f16, {4, 8}), of_experts(DType::i8, {2, 32, 8}), scales_of_experts(DType::f16, {2, 4, 8}),
      ends(DType::i64, {2}), bias(DType::f32, {1, 8}, {}, {0});
  TestTensor y(DType::f32, {16, 8});
  const FusedBody body = sum_plus_bias({16}, 8);
  const ir::Encoding encoding{.storage = DType::i8, .block = ir::Encoding::Block{8, 1}};
  for (const bool experts : {false, true}) {
    HandmadeStep step;
    step.site.kernel = GemmAttributes{DType::f16};
    step.site.body = &body;
    step.add(Role::a, a);
    if (experts) {
      step.add(Role::b, of_experts, encoding).add(Role::scale, scales_of_experts).add(Role::row_ends, ends);
    } else {
      step.add(Role::b, b, encoding).add(Role::scale, scale);
    }
    step.add(Role::body, bias).add(Role::output, y);
    EXPECT_EQ(step.refusal(), "");
    for (const Target& other : {Target(), cuda_target(90)})
      EXPECT_TRUE(compiler_for(other).offers(step.site, other, {}).offers.empty()) << other.text() << (experts ? ", experts" : "");
  }
}

// What a damaged plan could say is refused when sizes are known.
TEST(ReferenceMatmul, OperandsThatDoNotFitAreRefused) {
  const FusedBody body = sum_plus_bias({2}, 3);
  TestTensor a(DType::f32, {2, 4}), bias(DType::f32, {1, 3}, {}, {0}), y(DType::f32, {2, 3});
  auto run = [&](TestTensor b, TestTensor* scale, TestTensor* ends, int64_t group) {
    HandmadeStep step;
    step.site.kernel = GemmAttributes{DType::f32};
    step.site.body = &body;
    step.add(Role::a, a).add(Role::b, b, scale == nullptr ? std::nullopt : std::optional(ir::Encoding{.storage = DType::i8, .block = ir::Encoding::Block{group, 1}}));
    if (scale != nullptr) step.add(Role::scale, *scale);
    if (ends != nullptr) step.add(Role::row_ends, *ends);
    step.add(Role::body, bias).add(Role::output, y);
    step.run();
  };
  TestTensor scale(DType::f32, {2, 3}), ends(DType::i64, {2}), reals(DType::f32, {3});
  EXPECT_THROW(run(TestTensor(DType::i8, {4, 3}), &scale, nullptr, 4), Error);       // one group, two scales
  EXPECT_THROW(run(TestTensor(DType::i8, {4, 3}), &scale, nullptr, 3), Error);       // K is not a multiple of the group
  EXPECT_THROW(run(TestTensor(DType::f32, {3, 4, 3}), nullptr, &ends, 0), Error);    // three experts, two ends
  EXPECT_THROW(run(TestTensor(DType::f32, {3, 4, 3}), nullptr, &reals, 0), Error);   // ends are integers
}

}  // namespace
}  // namespace ingot::backend::reference
