#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace ingot {

namespace {

alignas(16) constexpr uint32_t constants[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
                                                0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
                                                0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
                                                0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
                                                0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
                                                0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void add_block(Sha256::State& state, const std::byte* block) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    uint32_t v;
    std::memcpy(&v, block + 4 * i, 4);
    w[i] = __builtin_bswap32(v);
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t x = w[i - 15], y = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ (x >> 3)) + w[i - 7] + (std::rotr(y, 17) ^ std::rotr(y, 19) ^ (y >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t one = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
    const uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
  }
  const uint32_t more[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state.size(); ++i) state[i] += more[i];
}

void add_portably(Sha256::State& state, const std::byte* bytes, size_t count) {
  for (; count > 0; --count, bytes += 64) add_block(state, bytes);
}

#if defined(__x86_64__)

bool has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned sha = 1u << 29, sse41 = 1u << 19;
  const bool vectors = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & sse41) != 0;
  return vectors && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & sha) != 0;
}

// Two rounds an instruction. It wants the state as (f, e, b, a) and (h, g, d, c), lowest element first.
__attribute__((target("sha,sse4.1,ssse3"))) void add_by_instructions(Sha256::State& state, const std::byte* bytes, size_t count) {
  auto* words = reinterpret_cast<__m128i*>(state.data());
  const __m128i dcba = _mm_loadu_si128(words), hgfe = _mm_loadu_si128(words + 1);
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  for (; count > 0; --count, bytes += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 16 * i)), big_endian);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const __m128i next = _mm_add_epi32(w[i % 4], _mm_load_si128(reinterpret_cast<const __m128i*>(constants + 4 * i)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, next);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(next, 0x0e));
      const __m128i sums = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]), _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4));
      w[i % 4] = _mm_sha256msg2_epu32(sums, w[(i + 3) % 4]);  // of no use in the last four
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool has_instructions() { return false; }
constexpr auto add_by_instructions = add_portably;

#endif

}  // namespace

Sha256::Sha256(bool own_instructions)
    : blocks_(own_instructions && has_instructions() ? add_by_instructions : add_portably),
      state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
      rest_{} {}

void Sha256::add(std::span<const std::byte> bytes) {
  const size_t filled = bytes_ % rest_.size();
  bytes_ += bytes.size();
  if (filled > 0) {
    const size_t taken = std::min(bytes.size(), rest_.size() - filled);
    std::copy_n(bytes.begin(), taken, rest_.begin() + filled);
    bytes = bytes.subspan(taken);
    if (filled + taken < rest_.size()) return;
    blocks_(state_, rest_.data(), 1);
  }
  const size_t whole = bytes.size() / rest_.size();
  blocks_(state_, bytes.data(), whole);
  bytes = bytes.subspan(whole * rest_.size());
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
}

std::array<std::byte, 32> Sha256::hash() const {
  State state = state_;
  const size_t filled = bytes_ % rest_.size();
  std::byte last[128] = {};
  std::copy_n(rest_.begin(), filled, last);
  last[filled] = std::byte{0x80};
  const size_t blocks = filled < 56 ? 1 : 2;
  const uint64_t bits = __builtin_bswap64(bytes_ * 8);
  std::memcpy(last + 64 * blocks - 8, &bits, 8);
  blocks_(state, last, blocks);
  std::array<std::byte, 32> out;
  for (size_t i = 0; i < state.size(); ++i) {
    const uint32_t v = __builtin_bswap32(state[i]);
    std::memcpy(out.data() + 4 * i, &v, 4);
  }
  return out;
}

std::array<std::byte, 32> sha256(std::span<const std::byte> bytes) {
  Sha256 all;
  all.add(bytes);
  return all.hash();
}

}  // namespace ingot
