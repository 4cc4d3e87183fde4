// Comparisons, tests and choices.
#include <cmath>

#include "base/error.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

Value never(const Value& x) { return full(x.graph(), x.dims(), false, DType::b8); }

Value test(Op op, const Value& x) { return is_float(x.dtype()) ? ir::map(op, {x}) : never(x); }

Value chosen(const Value& condition, const Operand& a, const Operand& b) {
  if (!is_bool(condition.dtype()) && condition.dtype() != DType::u8) fail(Code::unsupported, "where: the condition is {}, not bool", name_of(condition.dtype()));
  return select(condition, a, b);
}

const Definition comparison_rows[] = {
    {"eq.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return equal(a, b); }},
    {"{ne,ne,not_equal,not_equal}.{Tensor,Scalar,Tensor,Scalar}(Tensor self, {Tensor,Scalar,Tensor,Scalar} other)", Types::common,
     [](Value a, Operand b) { return not_equal(a, b); }},
    {"lt.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return a < b; }},
    {"{le,le,less_equal,less_equal}.{Tensor,Scalar,Tensor,Scalar}(Tensor self, {Tensor,Scalar,Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return a <= b; }},
    {"gt.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return a > b; }},
    {"{ge,ge,greater_equal,greater_equal}.{Tensor,Scalar,Tensor,Scalar}(Tensor self, {Tensor,Scalar,Tensor,Scalar} other)", Types::common,
     [](Value a, Operand b) { return a >= b; }},
    {"greater.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return a > b; }},
    {"less.{Tensor,Scalar}(Tensor self, {Tensor,Scalar} other)", Types::common, [](Value a, Operand b) { return a < b; }},
    {"isnan(Tensor self)", [](Value x) { return test(Op::is_nan, x); }},
    {"isinf(Tensor self)", [](Value x) { return test(Op::is_inf, x); }},
    {"isfinite(Tensor self)", [](Value x) { return logical_not(test(Op::is_nan, x) | test(Op::is_inf, x)); }},
    {"isposinf(Tensor self)", [](Value x) { return is_float(x.dtype()) ? equal(x, INFINITY) : never(x); }},
    {"isneginf(Tensor self)", [](Value x) { return is_float(x.dtype()) ? equal(x, -INFINITY) : never(x); }},
    {"signbit(Tensor self)", [](Value x) { return is_bool(x.dtype()) || is_wide_unsigned(x.dtype()) ? never(x) : ir::map(Op::signbit, {x}); }},
    {"where.self(Tensor condition, Tensor self, Tensor other)", Types::each, [](Value c, Operand a, Operand b) { return chosen(c, a, b); }},
    {"where.ScalarSelf(Tensor condition, Scalar self, Tensor other)", Types::each, [](Value c, Operand a, Operand b) { return chosen(c, a, b); }},
    {"where.ScalarOther(Tensor condition, Tensor self, Scalar other)", Types::each, [](Value c, Operand a, Operand b) { return chosen(c, a, b); }},
    {"where.Scalar(Tensor condition, Scalar self, Scalar other)", [](Value c, Operand a, Operand b) { return chosen(c, a, b); }},
    {"masked_fill.{Scalar,Tensor}(Tensor self, Tensor mask, {Scalar,Tensor} value)", Types::each,
     [](Value x, Value mask, Operand v) {
       if (!is_bool(mask.dtype())) fail(Code::unsupported, "masked_fill: the mask is {}, not bool", name_of(mask.dtype()));
       if (v.value && v.value->rank() != 0) fail(Code::unsupported, "masked_fill: the value has rank {}, not 0", v.value->rank());
       return select(mask, v.value ? cast(*v.value, x.dtype()) : full(x.graph(), {}, v.number, x.dtype()), x);
     }},
    {"isin.{Tensor_Tensor,Tensor_Scalar}({Tensor,Tensor} {elements,elements}, {Tensor,Scalar} {test_elements,test_element}, *, bool assume_unique=False, bool invert=False)",
     Types::common,
     [](Value x, Value of, bool, bool invert) {
       const Value found = reduce("any", equal(unsqueeze(x, -1), reshape(of, {Dim(-1)})), {-1}, drop);
       return invert ? logical_not(found) : found;
     }},
    {"heaviside(Tensor self, Tensor values)", Types::same, [](Value x, Value v) { return select(equal(x, 0), v, cast(x > 0, x.dtype())); }},
    {"isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False)", Types::same,
     [](Value a, Value b, double rtol, double atol, bool equal_nan) {
       Value close = equal(a, b);
       if (is_float(a.dtype())) {
         Value difference = abs(a - b);
         close = close | ((difference <= abs(b) * rtol + atol) & logical_not(ir::map(Op::is_inf, {difference})));
         if (equal_nan) close = close | (ir::map(Op::is_nan, {a}) & ir::map(Op::is_nan, {b}));
       } else if (rtol > 0 || atol > 0) {
         Value x = cast(a, DType::f64), y = cast(b, DType::f64);
         close = close | (abs(x - y) <= abs(y) * rtol + atol);
       }
       return close;
     }},
};

}  // namespace

std::span<const Definition> comparison_definitions() { return comparison_rows; }

}  // namespace ingot::ops
