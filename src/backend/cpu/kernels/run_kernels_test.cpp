// Scan, scatter and sort against results written by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cpu/kernels/kernel_test.h"
#include "base/error.h"
#include "kernels/scan/run/scan_args.h"
#include "kernels/scatter/run/scatter_args.h"
#include "kernels/sort/run/sort_args.h"

namespace ingot::backend {
namespace {

using ir::DType;

template <class T>
constexpr DType dtype_of = std::is_same_v<T, float>    ? DType::f32
                           : std::is_same_v<T, double> ? DType::f64
                           : std::is_same_v<T, int8_t> ? DType::i8
                                                       : DType::i64;

struct Operand {
  std::byte* data;
  DType dtype;
  std::vector<int64_t> dims, strides;
};

template <class T>
Operand of(std::vector<T>& v, std::vector<int64_t> dims, std::vector<int64_t> strides = {}) {
  if (strides.empty()) {
    strides.assign(dims.size(), 1);
    for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  }
  return {reinterpret_cast<std::byte*>(v.data()), dtype_of<T>, std::move(dims), std::move(strides)};
}

void run(const char* name, const std::vector<std::byte>& constants, const std::vector<Operand>& operands) {
  std::vector<TensorRef> refs;
  for (const Operand& o : operands) refs.push_back({o.data, o.dtype, static_cast<int>(o.dims.size()), o.dims.data(), o.strides.data()});
  kernels::run_kernel(name, constants, refs);
}

TEST(scan, sums_along_either_axis_and_in_place) {
  std::vector<int64_t> x = {1, 2, 3, 4, 5, 6}, out(6);
  run("scan", serialise(kernels::ScanArgs{kernels::ScanArgs::Kind::sum, 1}), {of(x, {2, 3}), of(out, {2, 3})});
  EXPECT_EQ(out, (std::vector<int64_t>{1, 3, 6, 4, 9, 15}));
  run("scan", serialise(kernels::ScanArgs{kernels::ScanArgs::Kind::sum, 0}), {of(x, {2, 3}), of(x, {2, 3})});
  EXPECT_EQ(x, (std::vector<int64_t>{1, 2, 3, 5, 7, 9}));
}

TEST(scan, maximum_keeps_nan_and_products_wrap) {
  std::vector<float> x = {1, 3, NAN, 2}, out(4);
  run("scan", serialise(kernels::ScanArgs{kernels::ScanArgs::Kind::max, 0}), {of(x, {4}), of(out, {4})});
  EXPECT_EQ(out[1], 3);
  EXPECT_TRUE(std::isnan(out[2]) && std::isnan(out[3]));
  std::vector<int8_t> y = {100, 2, 2}, wrapped(3);
  run("scan", serialise(kernels::ScanArgs{kernels::ScanArgs::Kind::prod, 0}), {of(y, {3}), of(wrapped, {3})});
  EXPECT_EQ(wrapped, (std::vector<int8_t>{100, static_cast<int8_t>(200), static_cast<int8_t>(400 & 255)}));
}

TEST(scan, logsumexp_of_nothing_but_minus_infinity) {
  std::vector<double> x = {-INFINITY, -INFINITY, 0, 0}, out(4);
  run("scan", serialise(kernels::ScanArgs{kernels::ScanArgs::Kind::logsumexp, 0}), {of(x, {4}), of(out, {4})});
  EXPECT_EQ(out[1], -INFINITY);
  EXPECT_NEAR(out[3], std::log(2.0), 1e-15);
}

TEST(scatter, adds_rows_and_takes_the_last_of_equal_ones) {
  std::vector<float> updates = {1, 2, 3, 4, 5, 6}, out(6, 10);
  std::vector<int64_t> index = {2, 0, 2};
  run("scatter", serialise(kernels::ScatterArgs{kernels::ScatterArgs::Kind::add, false, 0, {0}}), {of(updates, {3, 2}), of(index, {3}), of(out, {3, 2})});
  EXPECT_EQ(out, (std::vector<float>{13, 14, 10, 10, 16, 18}));
  run("scatter", serialise(kernels::ScatterArgs{kernels::ScatterArgs::Kind::set, false, 0, {0}}), {of(updates, {3, 2}), of(index, {3}), of(out, {3, 2})});
  EXPECT_EQ(out, (std::vector<float>{3, 4, 10, 10, 5, 6}));
}

TEST(scatter, two_indices_broadcast_and_wrap) {
  std::vector<int64_t> updates = {1, 2, 3, 4}, out(9, 0), rows = {0, -1}, columns = {1, 2};
  // out[rows[:, None], columns[None, :]] = updates
  run("scatter", serialise(kernels::ScatterArgs{kernels::ScatterArgs::Kind::set, true, 0, {0, 1}}),
      {of(updates, {2, 2}), of(rows, {2, 2}, {1, 0}), of(columns, {2, 2}, {0, 1}), of(out, {3, 3})});
  EXPECT_EQ(out, (std::vector<int64_t>{0, 1, 2, 0, 0, 0, 0, 3, 4}));
}

TEST(scatter, along_an_axis_and_out_of_range) {
  std::vector<float> updates = {1, 2, 3, 4}, out(6, 0);
  std::vector<int64_t> index = {2, 0, 1, 1};
  auto args = serialise(kernels::ScatterArgs{kernels::ScatterArgs::Kind::add, false, 0, {1}});
  run("scatter_along", args, {of(index, {2, 2}), of(updates, {2, 2}), of(out, {2, 3})});
  EXPECT_EQ(out, (std::vector<float>{2, 0, 1, 0, 7, 0}));
  index[3] = 3;
  EXPECT_THROW(run("scatter_along", args, {of(index, {2, 2}), of(updates, {2, 2}), of(out, {2, 3})}), Error);
}

TEST(sort, stable_with_nan_as_the_largest) {
  std::vector<float> x = {2, NAN, 1, 2, -INFINITY}, values(5);
  std::vector<int64_t> indices(5);
  run("sort", serialise(kernels::SortArgs{0, false}), {of(x, {5}), of(values, {5}), of(indices, {5})});
  EXPECT_EQ(indices, (std::vector<int64_t>{4, 2, 0, 3, 1}));
  run("sort", serialise(kernels::SortArgs{0, true}), {of(x, {5}), of(values, {5}), of(indices, {5})});
  EXPECT_EQ(indices, (std::vector<int64_t>{1, 0, 3, 2, 4}));
  EXPECT_EQ(values[1], 2);
}

TEST(sort, the_first_two_of_each_column) {
  std::vector<int64_t> x = {5, std::numeric_limits<int64_t>::max(), 7, std::numeric_limits<int64_t>::max() - 1, 6, 0}, values(4), indices(4);
  run("sort", serialise(kernels::SortArgs{0, true}), {of(x, {3, 2}), of(values, {2, 2}), of(indices, {2, 2})});
  EXPECT_EQ(indices, (std::vector<int64_t>{1, 0, 2, 1}));
  EXPECT_EQ(values[1], std::numeric_limits<int64_t>::max());
}

TEST(run_kernels, operands_that_do_not_fit_are_refused) {
  std::vector<float> x(6), y(6);
  std::vector<int64_t> i(6);
  EXPECT_THROW(run("scan", serialise(kernels::ScanArgs{kernels::ScanArgs::Kind::sum, 2}), {of(x, {2, 3}), of(y, {2, 3})}), Error);
  EXPECT_THROW(run("scan", serialise(kernels::ScanArgs{}), {of(x, {2, 3}), of(y, {3, 2})}), Error);
  EXPECT_THROW(run("sort", serialise(kernels::SortArgs{}), {of(x, {2}), of(y, {3}), of(i, {3})}), Error);
  EXPECT_THROW(run("scatter_along", serialise(kernels::ScatterArgs{kernels::ScatterArgs::Kind::set, false, 0, {0}}), {of(i, {2, 3}), of(x, {2, 3}), of(y, {3, 2})}), Error);
  EXPECT_THROW(run("scan", {std::byte{9}, std::byte{0}}, {of(x, {2, 3}), of(y, {2, 3})}), Error);
}

}  // namespace
}  // namespace ingot::backend
