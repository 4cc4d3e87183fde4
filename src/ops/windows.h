// Windows that slide over the last axes of a tensor: what convolutions and pooling read.
#pragma once
#include <vector>

#include "ops/binding.h"

namespace ingot::ops {

using Numbers = std::vector<int64_t>;

// One entry for each axis; a single number stands for all axes.
Numbers spread(Numbers given, size_t axes, const char* what);

// Where the windows on the last axes of a tensor are.
struct Windows {
  Numbers kernel, stride, dilation, before, after;  // before: below 0 where the first window begins inside

  int64_t reach(size_t i) const { return dilation[i] * (kernel[i] - 1); }
  // How many windows fit on an axis.
  Dim count(size_t i, const Dim& size) const { return floordiv(size + Dim(before[i] + after[i] - reach(i) - 1), stride[i]) + Dim(1); }
};

// [lead..., spatial...] -> [lead..., windows..., kernel...]; `fill` outside of the tensor.
Value windows_on(const Value& x, const Windows& w, const Dims& counts, const Scalar& fill);

Axes last_axes(const Value& x, size_t n);

}  // namespace ingot::ops
