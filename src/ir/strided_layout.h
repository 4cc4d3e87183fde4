// Where a tensor's elements are in its buffer.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace ingot::ir {

// Element i is `offset` + the sum of i[axis] * strides[axis] elements after the buffer's start.
struct StridedLayout {
  Dims dims, strides;  // one of each for each axis
  Dim offset = 0;
  bool operator==(const StridedLayout&) const = default;
};

StridedLayout row_major(const Dims&);
// The layout `part` of a buffer as a view of a tensor that has the layout `whole` in it. nullopt where the view would read outside of the tensor's elements, or is
// not known to be affine in the tensor's indices.
std::optional<AffineMap> map_between(const StridedLayout& whole, const StridedLayout& part, std::span<const Symbol>);

}  // namespace ingot::ir
