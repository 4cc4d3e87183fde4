// Half-precision numbers as bits: exact widening, rounding to nearest even.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "ir/dtype.h"

namespace ingot::ir {

inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t float_to_bf16(float value) {
  uint32_t u = std::bit_cast<uint32_t>(value);
  if ((u & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((u >> 16) | 0x40);  // NaN stays NaN
  return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

// Without branches, so that loops over these become vectors.
inline float f16_to_float(uint16_t bits) {
  const uint32_t shifted = static_cast<uint32_t>(bits & 0x7fff) << 13;
  constexpr uint32_t least = 0x38800000;  // 2^-14, the smallest normal number
  const uint32_t normal = shifted + (112u << 23), special = normal + (112u << 23);
  const auto subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(shifted + least) - std::bit_cast<float>(least));
  const uint32_t magnitude = shifted < (1u << 23) ? subnormal : shifted < (31u << 23) ? normal : special;
  return std::bit_cast<float>(magnitude | static_cast<uint32_t>(bits & 0x8000) << 16);
}

inline uint16_t float_to_f16(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value), sign = (u >> 16) & 0x8000, magnitude = u & 0x7fffffff;
  const uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;  // a half's smallest step is the last bit of 0.5
  const uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - 0x38000000) >> 13;
  const uint32_t half = magnitude > 0x7f800000 ? nan : magnitude >= 0x477ff000 ? 0x7c00 : magnitude < 0x38800000 ? subnormal : normal;
  return static_cast<uint16_t>(sign | half);
}

// The number as a half of the type; other types leave it.
inline double rounded_to(DType t, double value) {
  const auto wide = static_cast<float>(value);
  return t == DType::bf16 ? bf16_to_float(float_to_bf16(wide)) : t == DType::f16 ? f16_to_float(float_to_f16(wide)) : value;
}

}  // namespace ingot::ir
