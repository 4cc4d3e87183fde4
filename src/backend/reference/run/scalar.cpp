#include "backend/reference/run/scalar.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/half.h"
#include "ir/scalar_functions.h"

namespace ingot::backend::reference {

using ir::DType;
using ir::Op;

namespace {

int64_t wrapped(DType t, int64_t v) {
  switch (t) {
    case DType::b8: return v != 0;
    case DType::u8: return static_cast<uint8_t>(v);
    case DType::i8: return static_cast<int8_t>(v);
    case DType::i16: return static_cast<int16_t>(v);
    case DType::i32: return static_cast<int32_t>(v);
    default: return v;
  }
}

Value cast(DType to, DType from, const Value& x) {
  if (is_float(to)) {
    const bool narrow = from == DType::i64 && to == DType::f32;  // rounded once
    return {is_float(from) ? x.f : narrow ? static_cast<double>(static_cast<float>(x.i)) : static_cast<double>(x.i)};
  }
  if (!is_float(from)) return {0, x.i};
  if (to == DType::b8) return {0, x.f != 0};
  const int64_t least = ir::truncates_to_32_bits(to) ? INT32_MIN : INT64_MIN;
  const double v = std::trunc(x.f), end = -static_cast<double>(least);
  return {0, v >= -end && v < end ? static_cast<int64_t>(v) : least};
}

bool test(Op op, DType from, std::span<const Value> in) {
  const bool floating = is_float(from);
  switch (op) {
    case Op::logical_not: return in[0].i == 0;
    case Op::is_nan: return floating && std::isnan(in[0].f);
    case Op::is_inf: return floating && std::isinf(in[0].f);
    case Op::signbit: return floating ? std::signbit(in[0].f) : in[0].i < 0;
    default: return floating ? ir::compare(op, in[0].f, in[1].f) : ir::compare(op, in[0].i, in[1].i);
  }
}

Value unrounded(Op op, DType to, std::span<const DType> from, std::span<const Value> in) {
  if (op == Op::select) return in[0].i != 0 ? in[1] : in[2];
  if (op == Op::cast) return cast(to, from[0], in[0]);
  if (ir::result_of(op) == ir::ResultType::boolean) return {0, test(op, from[0], in)};
  if (op == Op::nextafter) {
    return {to == DType::f64 ? std::nextafter(in[0].f, in[1].f) : static_cast<double>(std::nextafterf(static_cast<float>(in[0].f), static_cast<float>(in[1].f)))};
  }
  if (is_float(to)) return {in.size() == 1 ? ir::float_unary(op, in[0].f) : ir::float_binary(op, in[0].f, in[1].f)};
  if (to == DType::b8 && op == Op::bit_not) return {0, in[0].i == 0};
  if (to == DType::b8 && op == Op::add) return {0, in[0].i | in[1].i};
  if (in.size() == 1) return {0, ir::int_unary(op, in[0].i)};
  return {0, ir::int_binary(op, in[0].i, in[1].i, static_cast<int>(ir::size_of(to)) * 8, to != DType::u8)};
}

}  // namespace

Value rounded(DType t, Value v) {
  if (!is_float(t)) return {0, wrapped(t, v.i)};
  return {t == DType::f32 ? static_cast<double>(static_cast<float>(v.f)) : ir::rounded_to(t, v.f)};
}

Value map(Op op, DType to, std::span<const DType> from, std::span<const Value> in) { return rounded(to, unrounded(op, to, from, in)); }

void check_map(Op op, DType to, std::span<const DType> from) {
  auto refuse = [&] { fail(Code::format, "a body maps types that {} does not take", ir::name_of(op)); };
  if (!ir::is_map(op) || static_cast<int>(from.size()) != ir::arity_of(op)) refuse();
  if (op == Op::cast) return;
  const bool boolean = ir::result_of(op) == ir::ResultType::boolean;
  const bool floating = is_float(boolean ? from[0] : to);
  const auto others = op == Op::select ? from.subspan(1) : from;
  const bool alike = std::all_of(others.begin(), others.end(), [&](DType t) { return is_float(t) == floating; });
  const bool flags = (op != Op::select && op != Op::logical_not) || !is_float(from[0]);
  if (!alike || !flags || (boolean && is_float(to)) || (op == Op::nextafter && !floating)) refuse();
  try {
    const Value ones[] = {{1, 1}, {1, 1}, {1, 1}};
    static_cast<void>(map(op, to, from, std::span(ones).first(from.size())));
  } catch (const Error&) {
    refuse();
  }
}

}  // namespace ingot::backend::reference
