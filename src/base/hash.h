// Hashes of bytes: XXH3 of xxHash. Fast, the same on every machine, not cryptographic.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ingot {

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed = 0);

// XXH3 with 128 bits, in the canonical order of bytes (that of `xxhsum -H2`).
using Hash128 = std::array<std::byte, 16>;
Hash128 hash128(std::span<const std::byte> bytes);

// hash128 of bytes that come in parts.
class Hasher128 {
 public:
  Hasher128();
  ~Hasher128();
  void add(std::span<const std::byte> bytes);
  Hash128 hash() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ingot
