// int4, symmetric, one scale for each group of numbers along K: w is about q * scale with q in -8 .. 7. The scale is the number of greatest magnitude divided by -8, so that
// this one uses the number -8, and is rounded to bfloat16 before q is computed: half the bytes of float32, and no error of its own.
//
// A group of zeros has scale 0 and integers 0. A group with an infinity or NaN has a scale that is none of the finite numbers, so every result from it is NaN.
#include "compile/encodings/encoding.h"

namespace ingot::compile {

using namespace ir;

namespace {

constexpr double least_int4 = -0x8, most_int4 = 0x7;

EncodedWeight encode_int4(const Handle& rows, int64_t group) {
  const Dim n = rows.dim(0), groups = rows.dim(1).value() / group;
  const Handle w = reshape(rows, {n, groups, Dim(group)}), top = amax(w, {2}, keep), bottom = amin(w, {2}, keep);
  const Handle extreme = select(top > -bottom, top, bottom);
  const Handle scale = cast(extreme / least_int4, DType::bf16), divisor = cast(scale, DType::f32);
  const Handle q = round(w / select(equal(divisor, 0.0), 1.0, divisor));
  // Clamps overflow, and numbers that the rounding of the scale left outside.
  const Handle inside = select(map(Op::is_nan, {q}), 0.0, clamp(q, Operand(least_int4), Operand(most_int4)));
  const Handle numbers = clamp(cast(inside, DType::i8), Operand(int64_t{-8}), Operand(int64_t{7}));  // what says that 4 bits hold them
  return {reshape(numbers, rows.dims()), reshape(scale, {n, groups})};
}

}  // namespace

extern const WeightEncoding int4_encoding;
const WeightEncoding int4_encoding{"int4", {.storage = DType::i8, .needed = 4}, true, encode_int4};

}  // namespace ingot::compile
