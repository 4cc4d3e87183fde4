// Fourier transforms of every kind of length and stride, against the sums that define them; operands that do not fit.
#include <gtest/gtest.h>

#include <complex>

#include "backend/cpu/kernels/kernel_test.h"
#include "base/error.h"
#include "kernels/fourier/run/fourier_args.h"

namespace ingot::kernels {
namespace {

using ir::DType;
using Kind = ir::FourierKind;
using Row = std::vector<std::complex<double>>;

// Element k of the transform; of the inverse one if `back`.
std::complex<double> sum_of(const Row& row, int64_t k, bool back) {
  const auto n = static_cast<int64_t>(row.size());
  std::complex<double> sum = 0;
  for (int64_t j = 0; j < n; ++j) {
    const auto [c, s] = ir::root_of_unity(j * k % n, n);
    sum += row[static_cast<size_t>(j)] * std::complex<double>(c, back ? s : -s);
  }
  return sum;
}

struct Case {
  Kind kind;
  DType type;
  int64_t batch, length;
  bool permuted;
};

void expect_transform(const Case& c) {
  SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(c.kind) << ", " << ir::name_of(c.type) << ", " << c.batch << " of " << c.length
                                  << (c.permuted ? ", permuted" : ""));
  const FourierArgs args{c.kind};
  const int64_t n = c.length, half = n / 2 + 1, given = c.kind == Kind::to_real ? half : n, made = c.kind == Kind::of_real ? half : n;
  const std::vector<size_t> order = c.permuted ? std::vector<size_t>{1, 0} : std::vector<size_t>{};
  std::vector<TestTensor> tensors;
  for (size_t i = 0; i < args.operands(); ++i) {
    tensors.emplace_back(c.type, std::vector<int64_t>{c.batch, i < args.inputs() ? given : made}, order, std::vector<size_t>{}, static_cast<int64_t>(i));
    if (i < args.inputs()) fill_with_integers(tensors.back(), static_cast<uint32_t>(i + 1));
  }
  std::vector<TestTensor*> operands;
  for (TestTensor& t : tensors) operands.push_back(&t);
  run_kernel("fourier", serialise(args), operands, {}, three());
  const double bound = (c.type == DType::f32 ? 6e-7 : 2e-15) * 4 * std::sqrt(static_cast<double>(n) * std::log2(static_cast<double>(n) + 1));
  for (int64_t b = 0; b < c.batch; ++b) {
    Row row(static_cast<size_t>(n));
    for (int64_t j = 0; j < n; ++j) {
      auto& x = row[static_cast<size_t>(j)];
      const bool conjugate = c.kind == Kind::to_real && j >= half;
      const int64_t at = conjugate ? n - j : j;
      x = tensors[0].get({b, at});
      if (c.kind == Kind::pair || (c.kind == Kind::to_real && j != 0 && 2 * j != n)) x += std::complex<double>(0, (conjugate ? -1 : 1) * tensors[1].get({b, at}));
    }
    for (int64_t k = 0; k < made; k += std::max<int64_t>(1, made / 40)) {
      const std::complex<double> want = sum_of(row, k, c.kind == Kind::to_real);
      EXPECT_NEAR(tensors[args.inputs()].get({b, k}), want.real(), bound) << b << ' ' << k;
      if (c.kind == Kind::to_real) continue;
      EXPECT_NEAR(tensors[args.inputs() + 1].get({b, k}), want.imag(), bound) << b << ' ' << k;
    }
  }
  for (size_t i = args.inputs(); i < args.operands(); ++i) EXPECT_TRUE(tensors[i].untouched_outside());
}

TEST(fourier, every_kind_of_length) {
  for (Kind kind : {Kind::pair, Kind::of_real, Kind::to_real}) {
    for (DType t : {DType::f32, DType::f64}) {
      for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 25, 30, 31, 37, 49, 64, 97, 100, 144, 243, 961, 1000, 1021, 1024, 2042}) expect_transform({kind, t, 3, n, false});
    }
  }
}

TEST(fourier, rows_that_fill_no_vector_and_any_strides) {
  for (Kind kind : {Kind::pair, Kind::of_real, Kind::to_real}) {
    for (bool permuted : {false, true}) {
      for (int64_t batch : {0, 1, 2, 7, 8, 33}) expect_transform({kind, DType::f32, batch, 20, permuted});
    }
  }
}

TEST(fourier, long_rows_are_done_one_by_one) {
  for (Kind kind : {Kind::pair, Kind::of_real, Kind::to_real}) {
    for (int64_t n : {16384, 44100, 9973}) expect_transform({kind, DType::f32, 2, n, false});
  }
}

TEST(fourier, operands_that_do_not_fit_are_refused) {
  TestTensor a(DType::f32, {2, 6}), b(DType::f32, {2, 6}), half(DType::f32, {2, 4}), other(DType::f32, {3, 6}), wide(DType::f64, {2, 6}), none(DType::f32, {2, 0});
  auto run = [](Kind kind, std::vector<TestTensor*> operands) { run_kernel("fourier", serialise(FourierArgs{kind}), operands, {}, inline_workers()); };
  run(Kind::pair, {&a, &b, &a, &b});
  run(Kind::of_real, {&a, &half, &half});
  EXPECT_THROW(run(Kind::pair, {&a, &b, &a}), Error);
  EXPECT_THROW(run(Kind::pair, {&a, &b, &a, &other}), Error);
  EXPECT_THROW(run(Kind::pair, {&a, &wide, &a, &b}), Error);
  EXPECT_THROW(run(Kind::pair, {&a, &half, &a, &b}), Error);
  EXPECT_THROW(run(Kind::of_real, {&a, &half, &b}), Error);
  EXPECT_THROW(run(Kind::to_real, {&a, &half, &a}), Error);
  EXPECT_THROW(run(Kind::pair, {&none, &none, &none, &none}), Error);
  EXPECT_THROW(run_kernel("fourier", serialise(FourierArgs{Kind::pair, 2}), {&a, &b, &a, &b}, {}, inline_workers()), Error);
  for (std::byte wrong : {std::byte{3}, std::byte{0b1100}, std::byte{0b100000}}) EXPECT_THROW(parse_fourier(std::vector{wrong}), Error);
  EXPECT_THROW(parse_fourier({}), Error);
}

}  // namespace
}  // namespace ingot::kernels
