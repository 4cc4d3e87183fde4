// int8, symmetric, one scale per output channel: w is about q * scale with scale = max |w| / 127 and q = 127 w / max |w|, rounded half to even. For
// half types 127 w is exact, so ties are seen as ties.
//
// A channel of zeros has scale 0 and integers 0. A channel with an infinity or NaN has that as its scale, so every result from it is NaN.
#include <limits>

#include "compile/encodings/encoding.h"

namespace ingot::compile {

using namespace ir;

namespace {

constexpr double largest = std::numeric_limits<int8_t>::max();

EncodedWeight encode(const Handle& rows, int64_t) {
  const Handle row_max = amax(abs(rows), {1}, keep);
  const Handle q = round(rows * largest / select(equal(row_max, 0.0), 1.0, row_max));
  // Clamps infinities and overflow.
  const Handle inside = select(map(Op::is_nan, {q}), 0.0, clamp(q, Operand(-largest), Operand(largest)));
  return {cast(inside, DType::i8), row_max / largest};
}

}  // namespace

extern const WeightEncoding int8_encoding;
const WeightEncoding int8_encoding{"int8", {.storage = DType::i8, .block = Encoding::Block{0, 1}}, false, encode};

}  // namespace ingot::compile
