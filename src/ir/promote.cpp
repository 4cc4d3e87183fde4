// ATen's promotion: the highest category present (bool < integer < float < complex) decides; inside it, tensors with
// axes come before 0-d tensors, and those before plain numbers.
#include <algorithm>

#include "base/error.h"
#include "ir/compose.h"

namespace ingot::ir {

namespace {

int category(DType t) { return is_bool(t) ? 0 : is_integer(t) ? 1 : is_complex(t) ? 3 : 2; }

// torch.promote_types.
DType promote(DType a, DType b) {
  if (a == b) return a;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  if (is_integer(a)) {
    if (is_wide_unsigned(a) || is_wide_unsigned(b)) fail(Code::unsupported, "torch has no common type of {} and {}", torch_name_of(a), torch_name_of(b));
    // u8 and a signed type of its width meet in the next wider signed one.
    if (a == DType::u8 || b == DType::u8) {
      DType other = a == DType::u8 ? b : a;
      return other == DType::i8 ? DType::i16 : other;
    }
    return std::max(a, b);
  }
  if ((a == DType::f16 && b == DType::bf16) || (a == DType::bf16 && b == DType::f16)) return DType::f32;
  return size_of(a) > size_of(b) ? a : b;
}

DType default_type(const Scalar& s) { return s.is_bool() ? DType::b8 : s.is_integer() ? DType::i64 : DType::f32; }

}  // namespace

DType float_type(DType t) { return is_float(t) || is_complex(t) ? t : DType::f32; }

DType result_type(std::span<const Operand> operands) {
  // One slot a level: tensors, 0-d tensors, numbers.
  std::optional<DType> level[3];
  for (const Operand& o : operands) {
    int slot = !o.value || o.value->weak() ? 2 : o.value->rank() == 0 ? 1 : 0;
    DType t = o.value ? o.value->dtype() : default_type(o.number);
    level[slot] = level[slot] ? promote(*level[slot], t) : t;
  }
  std::optional<DType> out;
  for (const auto& t : level) {
    if (!t) continue;
    if (!out) {
      out = t;
    } else if (category(*t) > category(*out)) {
      out = t;
    }
  }
  if (!out) fail(Code::internal, "result type of no operands");
  return *out;
}

}  // namespace ingot::ir
