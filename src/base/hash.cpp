#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace ingot {

namespace {

Hash128 canonical(XXH128_hash_t hash) {
  XXH128_canonical_t text;
  XXH128_canonicalFromHash(&text, hash);
  Hash128 out;
  static_assert(sizeof text == sizeof out);
  std::memcpy(out.data(), &text, sizeof out);
  return out;
}

}  // namespace

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed) { return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed); }

struct Hasher128::State {
  XXH3_state_t xxh;
};

Hasher128::Hasher128() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }

Hasher128::~Hasher128() = default;

void Hasher128::add(std::span<const std::byte> bytes) { XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size()); }

Hash128 Hasher128::hash() const { return canonical(XXH3_128bits_digest(&state_->xxh)); }

Hash128 hash128(std::span<const std::byte> bytes) { return canonical(XXH3_128bits(bytes.data(), bytes.size())); }

}  // namespace ingot
