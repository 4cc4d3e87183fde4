#pragma once
#include "ops/binding.h"

namespace ingot::ops {

// Row-major numbers of the elements that are not zero, in order: i64 [u]. The count u is read from data.
Value nonzero_elements(const Value& x);

}  // namespace ingot::ops
