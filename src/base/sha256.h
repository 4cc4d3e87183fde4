// SHA-256: names bytes so that nobody can make others of the same name. hash.h is faster, and only for what nobody forges.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ingot {

std::array<std::byte, 32> sha256(std::span<const std::byte> bytes);

// sha256 of bytes that come in parts.
class Sha256 {
 public:
  // By the processor's own instructions if it has them, or without.
  explicit Sha256(bool own_instructions = true);
  void add(std::span<const std::byte> bytes);
  std::array<std::byte, 32> hash() const;

  using State = std::array<uint32_t, 8>;

 private:
  void (*blocks_)(State&, const std::byte* bytes, size_t count);  // adds blocks of 64 bytes
  State state_;
  std::array<std::byte, 64> rest_;
  uint64_t bytes_ = 0;
};

}  // namespace ingot
