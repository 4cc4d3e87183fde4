#include "base/hash.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
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

// The values of `printf .. | xxhsum -H2` and of XXH3_64bits: files hold them, so they never change.
TEST(Hash, IsXxh3) {
  EXPECT_EQ(hash64({}), 0x2d06800538d394c2u);
  auto text = [](std::string_view bytes) {
    std::string out;
    for (std::byte b : hash128(std::as_bytes(std::span(bytes)))) out += fmt::format("{:02x}", static_cast<unsigned>(b));
    return out;
  };
  EXPECT_EQ(text(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(text("ingot"), "e04ee18e5aae88ac79b859c60e0bc1ce");
}

TEST(Hash, PartsAreHashedAsTheWhole) {
  for (size_t n : {0, 1, 63, 300, 5000}) {
    const std::vector<std::byte> v = numbers(n);
    for (size_t cut : {size_t{0}, n / 3, n}) {
      Hasher128 hasher;
      hasher.add(std::span(v).first(cut));
      hasher.add(std::span(v).subspan(cut));
      EXPECT_EQ(hasher.hash(), hash128(v)) << n << ", cut at " << cut;
      EXPECT_EQ(hasher.hash(), hash128(v));  // asked twice
    }
  }
}

}  // namespace
}  // namespace ingot
