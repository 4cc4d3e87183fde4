// What a plan file begins with, for rooms that tell plans from other files. plan/file.h has the format.
#pragma once
#include <array>

namespace ingot {

// No text begins with the first byte, and a transfer that changes ends of lines changes the last two.
inline constexpr std::array<char, 8> plan_mark = {'\x89', 'i', 'n', 'g', 'o', 't', '\r', '\n'};

}  // namespace ingot
