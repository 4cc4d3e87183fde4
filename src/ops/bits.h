// Elements as they lie in memory.
#pragma once
#include "ops/binding.h"

namespace ingot::ops {

// The same bytes as elements of another real type, of which the last axis has more or fewer. The first byte is the lowest.
Value of_same_bytes(const Value& x, DType to);

}  // namespace ingot::ops
