// Sizes multiplied by a float64, as upsampling by a factor computes them.
#pragma once
#include <optional>

#include "ir/dim.h"

namespace ingot::ir {

// floor(size * factor) as float64 computes it, for sizes of a range and results below 2^40, also where it cuts some products that are whole: 0.7 * 10 is 7, 0.7 * 90 is 62.99999999999999.
// None if the factor is no near fraction.
std::optional<Dim> scaled(const Dim& size, double factor, Range range);

}  // namespace ingot::ir
