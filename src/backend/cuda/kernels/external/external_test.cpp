// The launch of a registered kernel: its grid, and the place of each parameter. Needs no GPU.
#include <gtest/gtest.h>

#include "backend/cuda/kernels/external/run/external_launches.h"
#include "base/error.h"
#include "kernels/external/run/external_args.h"

namespace ingot::kernels {
namespace {

struct Operand {
  ir::DType dtype;
  std::vector<int64_t> dims, strides;

  Operand(ir::DType t, std::vector<int64_t> of) : dtype(t), dims(std::move(of)), strides(dims.size(), 1) {
    for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  }
  TensorRef ref() const { return {nullptr, dtype, static_cast<int>(dims.size()), dims.data(), strides.data()}; }
};

// An operator (Tensor a, float f, Tensor(b!) b, SymInt n, bool y) -> Tensor, whose step has a and then b.
ExternalArgs args() {
  using Kind = ExternalNumber::Kind;
  ExternalArgs a;
  a.name = "own::test";
  a.inputs = {0, 1};
  a.written = {1};
  a.results = 1;
  a.numbers = {{Kind::real, 0, 1.5}, {Kind::size, 0, 0}, {Kind::boolean, 1, 0}};
  a.entry = "user_1:test";
  a.block = {32, 2, 1};
  return a;
}

CudaLaunches launches(const ExternalArgs& a, const std::vector<Operand>& operands, const std::vector<int64_t>& sizes) {
  std::vector<TensorRef> refs;
  for (const Operand& o : operands) refs.push_back(o.ref());
  return external_cuda_launches({refs, sizes, &a}, {132, true});
}

template <class T>
T at(const CudaLaunch& l, size_t parameter) {
  T v;
  std::memcpy(&v, l.parameters.data() + l.places[parameter], sizeof v);
  return v;
}

const Operand a_matrix(ir::DType::f32, {4, 6}), a_row(ir::DType::f16, {6});

TEST(external_launches, parameters) {
  const CudaLaunches made = launches(args(), {a_matrix, a_row, a_row, a_matrix}, {7, 3, 2, 1, 1024, 24, 5});
  ASSERT_EQ(made.list.size(), 1u);
  const CudaLaunch& l = made.list[0];
  EXPECT_EQ(l.kernel, "user_1:test");
  EXPECT_EQ((std::vector<uint32_t>{l.blocks, l.blocks_y, l.blocks_z, l.threads, l.threads_y, l.threads_z, l.shared}), (std::vector<uint32_t>{3, 2, 1, 32, 2, 1, 1024}));
  // a, b's new value, 1.5, 7, true, 24, 5, the result
  ASSERT_EQ(l.places.size(), 8u);
  EXPECT_EQ(at<double>(l, 2), 1.5);
  EXPECT_EQ(at<int64_t>(l, 3), 7);
  EXPECT_EQ(at<uint8_t>(l, 4), 1);
  EXPECT_EQ(at<int64_t>(l, 5), 24);
  EXPECT_EQ(at<int64_t>(l, 6), 5);
  ASSERT_EQ(l.pointers.size(), 3u);
  for (const auto& [pointer, parameter, operand] : {std::tuple(0, 0, 0u), std::tuple(1, 1, 2u), std::tuple(2, 7, 3u)}) {
    EXPECT_EQ(l.pointers[static_cast<size_t>(pointer)].at, l.places[static_cast<size_t>(parameter)]);
    EXPECT_EQ(l.pointers[static_cast<size_t>(pointer)].index, operand);
    EXPECT_EQ(l.places[static_cast<size_t>(parameter)] % 8, 0u);
  }
}

TEST(external_launches, numbers_of_32_bits) {
  ExternalArgs a = args();
  a.number_bytes = 4;
  const CudaLaunches made = launches(a, {a_matrix, a_row, a_row, a_matrix}, {7, 1, 1, 1, 0, 24, 5});
  EXPECT_EQ(at<float>(made.list[0], 2), 1.5f);
  EXPECT_EQ(at<int32_t>(made.list[0], 3), 7);
  EXPECT_EQ(at<int32_t>(made.list[0], 6), 5);
  EXPECT_THROW(launches(a, {a_matrix, a_row, a_row, a_matrix}, {int64_t{1} << 31, 1, 1, 1, 0}), Error);
}

TEST(external_launches, nothing_is_launched_for_nothing) {
  const Operand none(ir::DType::f32, {0, 6}), no_row(ir::DType::f16, {0});
  EXPECT_TRUE(launches(args(), {none, no_row, no_row, none}, {7, 0, 1, 1, 0}).list.empty());
  EXPECT_THROW(launches(args(), {none, a_row, a_row, a_matrix}, {7, 0, 1, 1, 0}), Error);  // a result has elements, and the grid no blocks
}

TEST(external_launches, what_does_not_fit_is_refused) {
  Operand transposed = a_matrix;
  transposed.strides = {1, 4};
  EXPECT_THROW(launches(args(), {transposed, a_row, a_row, a_matrix}, {7, 1, 1, 1, 0}), Error);
  EXPECT_THROW(launches(args(), {a_matrix, a_row, a_matrix, a_matrix}, {7, 1, 1, 1, 0}), Error);
  EXPECT_THROW(launches(args(), {a_matrix, a_row, a_row, a_matrix}, {7, 1, 65536, 1, 0}), Error);
  EXPECT_THROW(launches(args(), {a_matrix, a_row, a_row, a_matrix}, {7, 1, 1, 1, 1 << 20}), Error);
}

TEST(external_launches, constants_are_checked) {
  const std::vector<std::byte> bytes = serialise(args());
  EXPECT_EQ(parse_external(bytes, 4, 5).numbers.size(), 3u);
  EXPECT_THROW(parse_external(bytes, 5, 5), Error);
  EXPECT_THROW(parse_external(bytes, 4, 0), Error);
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_THROW(parse_external(std::span(bytes).first(n), 4, 5), Error);
}

}  // namespace
}  // namespace ingot::kernels
