// Random scans of any layout against a loop, with NaN. Sums and products are of small integers, so that they are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "backend/cpu/kernels/kernel_test.h"
#include "kernels/scan/run/scan_args.h"

namespace ingot::kernels {
namespace {

using ir::DType;
using Kind = ScanArgs::Kind;

double combined(Kind kind, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return kind == Kind::sum ? a + b : kind == Kind::prod ? a * b : kind == Kind::max ? std::max(a, b) : std::min(a, b);
}

void compare(std::mt19937& random, DType type, Kind kind) {
  auto below = [&](int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random); };
  const int64_t sizes[] = {1, 2, 3, 5, 8, 31, 32, 33, 70, 300, 3000};
  std::vector<int64_t> dims;
  int64_t elements = 1;
  for (int64_t rank = 1 + below(3); rank > 0; --rank) {
    dims.push_back(sizes[below(elements > 1000 ? 3 : std::ssize(sizes))]);
    elements *= dims.back();
  }
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (below(2) == 0) std::shuffle(order.begin(), order.end(), random);
  TestTensor in(type, dims, order, {}, below(2)), out(type, dims, below(2) == 0 ? order : std::vector<size_t>{}, {}, below(2));
  in.each([&](const std::vector<int64_t>& at) {
    double v = kind == Kind::prod ? static_cast<double>(below(2) * 2 - 1) : static_cast<double>(below(3) - 1);
    if (ir::is_float(type) && below(200) == 0) v = std::numeric_limits<double>::quiet_NaN();
    in.put(at, v);
  });
  const auto axis = static_cast<size_t>(below(std::ssize(dims)));
  run_kernel("scan", serialise(ScanArgs{kind, static_cast<uint8_t>(axis)}), std::vector<TestTensor*>{&in, &out}, {}, three());
  ASSERT_TRUE(out.untouched_outside());
  in.each([&](std::vector<int64_t> at) {
    if (at[axis] != 0) return;
    double so_far = in.get(at);
    for (int64_t i = 0; i < dims[axis]; ++i) {
      at[axis] = i;
      if (i > 0) so_far = combined(kind, so_far, in.get(at));
      TestTensor rounded(type, {1});
      rounded.put({0}, so_far);
      const double want = rounded.get({0}), got = out.get(at);
      if (std::isnan(want) ? !std::isnan(got) : got != want) ADD_FAILURE() << got << " is not " << want << " at step " << i;
    }
  });
}

TEST(scan, random_layouts) {
  std::mt19937 random(3);
  auto below = [&](int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random); };
  const DType types[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i32, DType::i64};
  for (int n = 0; n < 300; ++n) {
    SCOPED_TRACE(n);
    compare(random, types[below(std::ssize(types))], static_cast<Kind>(below(4)));
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace ingot::kernels
