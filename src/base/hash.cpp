#include "base/hash.h"

#include <cstring>

namespace ingot {

namespace {

// 64 x 64 -> 128 bits, halves folded: a good mixer that costs one multiplication.
uint64_t mix(uint64_t a, uint64_t b) {
  unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t read64(const std::byte* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

constexpr uint64_t secret[] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93, 0xa0761d6478bd642f};

}  // namespace

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed) {
  const std::byte* p = bytes.data();
  size_t n = bytes.size();
  uint64_t lane[4] = {seed ^ secret[0], seed ^ secret[1], seed ^ secret[2], seed ^ secret[3]};
  for (; n >= 64; n -= 64, p += 64) {
    for (int k = 0; k < 4; ++k) lane[k] = mix(read64(p + 16 * k) ^ secret[k], read64(p + 16 * k + 8) ^ lane[k]);
  }
  // Products, not sums: in lane[0] ^ lane[1] the seed of a short input would cancel.
  uint64_t h = mix(lane[0], lane[1]) ^ mix(lane[2], lane[3] ^ secret[4]);
  for (; n >= 8; n -= 8, p += 8) h = mix(h ^ read64(p), secret[1]);
  uint64_t tail = 0;
  if (n > 0) std::memcpy(&tail, p, n);
  return mix(h ^ tail ^ secret[2], bytes.size() ^ secret[3]);
}

std::array<std::byte, 32> hash256(std::span<const std::byte> bytes) {
  std::array<std::byte, 32> out;
  for (uint64_t k = 0; k < 4; ++k) {
    uint64_t h = hash64(bytes, mix(k + 1, secret[4]));
    std::memcpy(out.data() + 8 * k, &h, 8);
  }
  return out;
}

}  // namespace ingot
