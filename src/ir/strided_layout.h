// Where a tensor's elements are in its buffer.
#pragma once
#include "ir/dim.h"

namespace ingot::ir {

// Element i lies `offset` + the sum of i[axis] * strides[axis] elements behind the buffer's start.
struct StridedLayout {
  Dims dims, strides;  // one of each for each axis
  Dim offset = 0;
  bool operator==(const StridedLayout&) const = default;
};

}  // namespace ingot::ir
