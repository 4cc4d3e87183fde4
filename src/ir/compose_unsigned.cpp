// Wide unsigned integers, which have few nodes of their own (takes_wide_unsigned): the rest is work on the signed integers with their bits.
#include "ir/compose_nodes.h"

namespace ingot::ir {

namespace {

// A number as the type of its size with the same bits: the one cast between wide unsigned integers and others that a graph has.
Handle with_bits(const Handle& x, DType to) { return x.dtype() == to ? x : cast_node(x, to); }

constexpr double above_i64 = 9223372036854775808.0;  // 2^63

// With it flipped, unsigned integers have the order of signed ones.
Scalar highest_bit(DType t) { return INT64_MIN >> (64 - 8 * size_of(t)); }

}  // namespace

Handle from_wide_unsigned(const Handle& x, DType to) {
  const Handle bits = with_bits(x, signed_type(x.dtype()));
  if (is_bool(to) || (is_integer(to) && size_of(to) <= size_of(bits.dtype()))) return cast(bits, to);
  if (x.dtype() == DType::u16) return cast(cast(bits, DType::i32) & UINT16_MAX, to);
  if (x.dtype() == DType::u32) return cast(cast(bits, DType::i64) & int64_t{UINT32_MAX}, to);
  // Of a number from 2^63 on, half of it is converted. Its last bit stays in, to round as the whole number does.
  const DType wide = to == DType::f64 ? to : DType::f32;
  const Handle half = (map(Op::shift_right, {bits, 1}) & INT64_MAX) | (bits & 1);
  return cast(select(bits < 0, cast(half, wide) * 2.0, cast(bits, wide)), to);
}

Handle to_wide_unsigned(const Handle& x, DType to) {
  if (!is_float(x.dtype())) return with_bits(cast(x, signed_type(to)), to);
  if (to != DType::u64) return with_bits(cast(cast(x, DType::i64), signed_type(to)), to);
  const Handle number = cast(x, x.dtype() == DType::f64 ? DType::f64 : DType::f32);
  return with_bits(select(number < above_i64, cast(number, DType::i64), cast(number - above_i64, DType::i64) ^ INT64_MIN), to);
}

Handle in_order_of_signed(const Handle& x) { return with_bits(x, signed_type(x.dtype())) ^ highest_bit(x.dtype()); }

Handle of_order_of_signed(const Handle& x, DType unsigned_type) { return with_bits(x ^ highest_bit(unsigned_type), unsigned_type); }

}  // namespace ingot::ir
