#pragma once
#include <limits>

#include "ir/graph.h"

namespace ingot::ops {

// The lowest number of a type.
inline ir::Scalar lowest(ir::DType t) {
  if (is_float(t)) return -std::numeric_limits<double>::infinity();
  if (t == ir::DType::u8 || is_bool(t)) return INT64_C(0);
  return -(INT64_C(1) << (8 * size_of(t) - 2)) * 2;
}

}  // namespace ingot::ops
