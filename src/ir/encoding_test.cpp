#include "ir/encoded_sizes.h"

#include <gtest/gtest.h>

#include <vector>

namespace ingot::ir {
namespace {

int64_t bytes(const Encoding& e, std::vector<int64_t> dims) { return storage_bytes(e, dims); }

TEST(Encoding, WholeBytes) {
  EXPECT_EQ(bytes({.storage = DType::f32}, {3, 5}), 60);
  EXPECT_EQ(bytes({.storage = DType::bf16}, {3, 5}), 30);
  EXPECT_EQ(bytes({.storage = DType::i8, .block = Encoding::Block{0, 1}}, {3, 5}), 15);
  EXPECT_EQ(bytes({.storage = DType::f64}, {}), 8);
  EXPECT_EQ(bytes({.storage = DType::f32}, {0, 5}), 0);
  EXPECT_EQ(bytes({.storage = DType::f32}, {5, 0}), 0);
}

TEST(Encoding, FewerBitsThanAByte) {
  const Encoding four{.storage = DType::i8, .bits = 4, .block = Encoding::Block{128, 1}, .zero = true}, three{.storage = DType::u8, .bits = 3};
  EXPECT_EQ(bytes(four, {16, 32}), 256);
  EXPECT_EQ(bytes(four, {16, 33}), 16 * 17);  // a row begins at a byte
  EXPECT_EQ(bytes(four, {2, 3, 1}), 6);
  EXPECT_EQ(bytes(four, {1}), 1);
  EXPECT_EQ(bytes(three, {2, 8}), 6);
  EXPECT_EQ(bytes(three, {2, 9}), 8);
}

TEST(Encoding, Panels) {
  const Encoding pairs{.storage = DType::bf16, .panels = Encoding::Panels{32, 2, 4096}}, nibbles{.storage = DType::i8, .bits = 4, .panels = Encoding::Panels{32, 1, 64}};
  EXPECT_EQ(bytes(pairs, {5, 6}), 2 * 6 * 32 + 4096);
  EXPECT_EQ(bytes(nibbles, {5, 6}), 5 * 16 + 64);
  EXPECT_EQ(bytes(pairs, {5, 64}), 2 * 6 * 64 + 4096);
}

TEST(Encoding, ImpossibleSizes) {
  constexpr int64_t large = int64_t{1} << 40;
  EXPECT_EQ(bytes({.storage = DType::f32}, {large, large}), INT64_MAX);
  EXPECT_EQ(bytes({.storage = DType::f32}, {1, INT64_MAX}), INT64_MAX);
  EXPECT_EQ(bytes({.storage = DType::f32}, {-1, 4}), INT64_MAX);
  EXPECT_EQ(bytes({.storage = DType::f32}, {4, -1}), INT64_MAX);
  EXPECT_EQ(bytes({.storage = DType::bf16, .panels = Encoding::Panels{32, 2, 4096}}, {INT64_MAX, 1}), INT64_MAX);
}

TEST(Encoding, SizesThatVary) {
  const Dim n = Dim::symbol(0);
  const std::vector<int64_t> at{9};
  EXPECT_EQ(storage_bytes({.storage = DType::f32}, {n, 5}), n * Dim(20));
  EXPECT_EQ(storage_bytes({.storage = DType::i8, .bits = 4}, {n, 5}), n * Dim(3));
  EXPECT_EQ(storage_bytes({.storage = DType::i8, .bits = 4}, {2, n}).evaluate(at), 10);
  EXPECT_EQ(storage_bytes({.storage = DType::f64}, Dims{}), Dim(8));
}

}  // namespace
}  // namespace ingot::ir
