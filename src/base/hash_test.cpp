#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace ingot {
namespace {

std::vector<std::byte> numbers(size_t n) {
  std::vector<std::byte> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = static_cast<std::byte>(i * 37 + 11);
  return v;
}

// 0 to 200 bytes: no whole block, one, several, each with every tail.
TEST(Hash, EveryBitCounts) {
  for (size_t n = 0; n <= 200; ++n) {
    std::vector<std::byte> v = numbers(n);
    const uint64_t whole = hash64(v);
    for (size_t bit = 0; bit < 8 * n; ++bit) {
      v[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      ASSERT_NE(hash64(v), whole) << n << " bytes, bit " << bit;
      v[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
  }
}

TEST(Hash, TheSeedCountsAtEveryLength) {
  for (size_t n = 0; n <= 200; ++n) {
    std::vector<std::byte> v = numbers(n);
    std::set<uint64_t> seen;
    for (uint64_t seed = 0; seed < 64; ++seed) seen.insert(hash64(v, seed));
    ASSERT_EQ(seen.size(), 64u) << n << " bytes";
  }
}

TEST(Hash, LengthsOfZerosDiffer) {
  std::vector<std::byte> zeros(300);
  std::set<uint64_t> seen;
  for (size_t n = 0; n <= zeros.size(); ++n) seen.insert(hash64(std::span(zeros).first(n)));
  EXPECT_EQ(seen.size(), zeros.size() + 1);
}

TEST(Hash, TheFourPartsAreDifferentHashes) {
  for (size_t n : {0, 5, 63, 64, 1000}) {
    auto parts = hash256(numbers(n));
    std::set<std::vector<std::byte>> seen;
    for (size_t k = 0; k < 4; ++k) seen.insert({parts.begin() + static_cast<long>(8 * k), parts.begin() + static_cast<long>(8 * k + 8)});
    EXPECT_EQ(seen.size(), 4u) << n;
  }
}

}  // namespace
}  // namespace ingot
