// Hashes of bytes: fast, not cryptographic.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ingot {

uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed = 0);
// Four independent 64-bit hashes.
std::array<std::byte, 32> hash256(std::span<const std::byte> bytes);

}  // namespace ingot
