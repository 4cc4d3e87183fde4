#include "base/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

namespace ingot {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string s;
  for (std::byte b : sha256(bytes)) s += fmt::format("{:02x}", static_cast<unsigned>(b));
  return s;
}

// Expected values are Python's hashlib's; 1 to 9 bytes over each end of a block are among the lengths.
TEST(Sha256, IsThatOfOthers) {
  EXPECT_EQ(hex(std::as_bytes(std::span("abc", 3))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::pair<size_t, const char*> cases[] = {
      {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},   {1, "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a"},
      {55, "81afe5b788dc2ce138ff83d9b20164db75a94d75d2b2432eea4a0ef605088c72"},  {56, "2aba54f0ac632420a2b502431408866e40e1d5e430df4cd822642c78ab2eb9c1"},
      {63, "733d3d4ee79ee67145bf73da13588f6f235d37414fc64b14a2f00f1762792f5e"},  {64, "79322907b3e9d013d7dc2c2f256674dbf733045cde01df3539271c6f5605feb8"},
      {65, "d85c007c6eb440f085afa2b84f6f2bce4658b240e9f62cb1364bf0485a57e720"},  {119, "6c87eedf096b345de205b702e5223b73b447a3207791ded3ea007ba15ed6736e"},
      {120, "42500cf6a1e3936d6b9e0bcfe296d654b63255e525487d3634d0b15fde591c4d"}, {1000, "6b0df76627243d095b0c4400cb658b7e804dd03461cc03aee8fc8fe0bcada168"},
  };
  for (auto [n, expected] : cases) {
    std::vector<std::byte> bytes(n);
    for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + n);
    EXPECT_EQ(hex(bytes), expected) << n;
  }
}

TEST(Sha256, PartsAreHashedAsTheWholeWithAndWithoutTheProcessorsInstructions) {
  for (size_t n : {0, 1, 55, 56, 63, 64, 65, 128, 300, 4099}) {
    std::vector<std::byte> bytes(n);
    for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + n);
    for (bool own : {true, false}) {
      for (size_t part : {size_t{1}, size_t{7}, size_t{64}, size_t{100}, n + 1}) {
        Sha256 parts(own);
        for (size_t at = 0; at < n; at += part) parts.add(std::span(bytes).subspan(at, std::min(part, n - at)));
        EXPECT_EQ(parts.hash(), sha256(bytes)) << n << " in parts of " << part;
      }
    }
  }
}

}  // namespace
}  // namespace ingot
