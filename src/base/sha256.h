// SHA-256: names bytes so that nobody can make others of the same name. hash.h is faster, and only for what nobody forges.
#pragma once
#include <array>
#include <cstddef>
#include <span>

namespace ingot {

std::array<std::byte, 32> sha256(std::span<const std::byte> bytes);

}  // namespace ingot
