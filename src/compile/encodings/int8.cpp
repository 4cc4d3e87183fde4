// int8, symmetric, a scale for each channel of the result: w is about q * scale with scale = max |w| / 127 and q = 127 w / max |w|, rounded half to even. Of a
// half type 127 w is exact, so what is half way between two numbers is seen to be so.
//
// A channel of zeros has scale 0 and numbers 0. A channel with an infinity or NaN has that as its scale, so all that is computed from it is NaN.
#include "compile/encodings/encoding.h"

namespace ingot::compile {

using namespace ir;

namespace {

constexpr double largest = 127;

EncodedWeight encode(const Handle& rows) {
  const Handle most = amax(abs(rows), {1}, keep);
  const Handle q = round(rows * largest / select(equal(most, 0.0), 1.0, most));
  // Infinities and what overflows are cut off.
  const Handle inside = select(map(Op::is_nan, {q}), 0.0, clamp(q, Operand(-largest), Operand(largest)));
  return {cast(inside, DType::i8), most / largest};
}

}  // namespace

extern const WeightEncoding int8_encoding;
const WeightEncoding int8_encoding{"int8", {.storage = DType::i8, .block = Encoding::Block{0, 1}}, encode};

}  // namespace ingot::compile
