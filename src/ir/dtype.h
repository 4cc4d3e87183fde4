// Element types. Storage only: how a type computes is decided where it is computed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ingot::ir {

enum class DType : uint8_t {
#define X(name, bytes, type, torch) name,
#include "ir/dtype.def"
#undef X
};

inline constexpr int dtype_count = 0
#define X(name, bytes, type, torch) +1
#include "ir/dtype.def"
#undef X
    ;

constexpr size_t size_of(DType t) {
  constexpr size_t sizes[] = {
#define X(name, bytes, type, torch) bytes,
#include "ir/dtype.def"
#undef X
  };
  return sizes[static_cast<int>(t)];
}

constexpr std::string_view name_of(DType t) {
  constexpr std::string_view names[] = {
#define X(name, bytes, type, torch) #name,
#include "ir/dtype.def"
#undef X
  };
  return names[static_cast<int>(t)];
}

constexpr std::string_view torch_name_of(DType t) {
  constexpr std::string_view names[] = {
#define X(name, bytes, type, torch) torch,
#include "ir/dtype.def"
#undef X
  };
  return names[static_cast<int>(t)];
}

// Accepts both the short name ("f32") and torch's ("float32").
constexpr std::optional<DType> dtype_from_name(std::string_view text) {
  for (int i = 0; i < dtype_count; ++i) {
    DType t = static_cast<DType>(i);
    if (text == name_of(t) || text == torch_name_of(t)) return t;
  }
  return std::nullopt;
}

constexpr bool is_float(DType t) { return t == DType::f16 || t == DType::bf16 || t == DType::f32 || t == DType::f64; }
constexpr bool is_complex(DType t) { return t == DType::c32 || t == DType::c64 || t == DType::c128; }
// The type of the parts of a complex type, and the complex type whose parts have a type.
constexpr DType part_type(DType t) { return t == DType::c128 ? DType::f64 : t == DType::c32 ? DType::f16 : DType::f32; }
constexpr DType complex_type(DType t) { return t == DType::f64 ? DType::c128 : t == DType::f16 ? DType::c32 : DType::c64; }
constexpr bool is_bool(DType t) { return t == DType::b8; }
constexpr bool is_wide_unsigned(DType t) { return t == DType::u16 || t == DType::u32 || t == DType::u64; }
// The signed integer that holds the bits of a wide unsigned one; other types are themselves.
constexpr DType signed_type(DType t) { return t == DType::u16 ? DType::i16 : t == DType::u32 ? DType::i32 : t == DType::u64 ? DType::i64 : t; }
// Types of canonical graphs, kernels and plans. A captured graph also has complex numbers, which become pairs, and wide unsigned integers, which become signed ones.
constexpr bool is_canonical(DType t) { return !is_complex(t) && !is_wide_unsigned(t); }
// Integers without bool.
constexpr bool is_integer(DType t) { return (t >= DType::u8 && t <= DType::i64) || is_wide_unsigned(t); }
// True if one is a float and the other the signed integer of its size: between these Op::bitcast goes.
constexpr bool has_bits_of(DType a, DType b) { return size_of(a) == size_of(b) && ((is_float(a) && is_integer(b)) || (is_integer(a) && is_float(b))); }
// The type arithmetic on `t` is carried out in: half types widen to f32, the rest are themselves.
constexpr DType compute_type(DType t) { return t == DType::f16 || t == DType::bf16 ? DType::f32 : t; }

}  // namespace ingot::ir
