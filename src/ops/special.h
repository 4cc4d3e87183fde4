// Special functions that other families are composed of.
#pragma once
#include "ir/compose.h"

namespace ingot::ops {

ir::Handle bessel_i0(const ir::Handle& x);  // of float64

}  // namespace ingot::ops
