// Inverses of strided matrices, of batches that do not fill a vector, and of singular matrices; operands that do not fit.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/kernels/kernel_test.h"
#include "base/error.h"
#include "kernels/small_matrix/run/small_matrix_args.h"

namespace ingot::kernels {
namespace {

using ir::DType;
using Kind = SmallMatrixArgs::Kind;

// The k-th matrix of a batch: rows of a diagonal matrix in reverse order. The one numbered `singular` has a column of zeros.
double number_of(const std::vector<int64_t>& at, int64_t n, int64_t singular) {
  const int64_t matrix = at[0], i = at[1], j = at[2];
  if (i + j != n - 1 || (matrix == singular && j == 1)) return 0;
  return static_cast<double>(matrix + j + 1);
}

TEST(small_matrix, inverse_whatever_the_strides) {
  for (DType t : {DType::f32, DType::f64}) {
    for (int64_t batch : {0, 1, 7, 8, 33}) {
      for (bool transposed : {false, true}) {
        const int64_t n = 5, singular = 6;
        const std::vector<size_t> order = transposed ? std::vector<size_t>{2, 0, 1} : std::vector<size_t>{};
        TestTensor a(t, {batch, n, n}, order, {}, 1), inverse(t, {batch, n, n}, {}, {}, 2), info(DType::i32, {batch});
        a.each([&](const std::vector<int64_t>& at) { a.put(at, number_of(at, n, singular)); });
        run_kernel("small_matrix", serialise(SmallMatrixArgs{Kind::inverse, 5, 5}), {&a, &inverse, &info}, {}, inline_workers());
        EXPECT_TRUE(inverse.untouched_outside() && info.untouched_outside());
        for (int64_t m = 0; m < batch; ++m) {
          EXPECT_EQ(info.get({m}), m == singular ? 2 : 0);
          for (int64_t i = 0; i < n && m != singular; ++i) {
            for (int64_t j = 0; j < n; ++j) EXPECT_NEAR(inverse.get({m, i, j}), i + j == n - 1 ? 1 / static_cast<double>(m + i + 1) : 0, 1e-7) << m << ' ' << i << ' ' << j;
          }
        }
      }
    }
  }
}

TEST(small_matrix, operands_that_do_not_fit_are_refused) {
  TestTensor a(DType::f32, {2, 3, 3}), x(DType::f32, {2, 3, 3}), info(DType::i32, {2}), other(DType::i32, {3}), half(DType::f16, {2, 3, 3});
  auto run = [](SmallMatrixArgs args, std::vector<TestTensor*> operands) { run_kernel("small_matrix", serialise(args), operands, {}, inline_workers()); };
  const SmallMatrixArgs args{Kind::inverse, 3, 3};
  run(args, {&a, &x, &info});
  EXPECT_THROW(run(args, {&a, &x, &other}), Error);
  EXPECT_THROW(run(args, {&a, &x, &x}), Error);
  EXPECT_THROW(run(args, {&half, &half, &info}), Error);
  EXPECT_THROW(run({Kind::inverse, 2, 2}, {&a, &x, &info}), Error);
  EXPECT_THROW(run(args, {&a, &x}), Error);
  EXPECT_THROW(parse_small_matrix(serialise(SmallMatrixArgs{Kind::inverse, 33, 33})), Error);
  EXPECT_THROW(parse_small_matrix(serialise(SmallMatrixArgs{Kind::inverse, 3, 4})), Error);
  EXPECT_THROW(parse_small_matrix({}), Error);
}

}  // namespace
}  // namespace ingot::kernels
