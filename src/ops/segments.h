// Segments: neighbours along an axis that belong together.
#pragma once
#include "ops/binding.h"

namespace ingot::ops {

// The number of the segment of each of `n` places, from where each segment ends: [n]. Empty segments have no place.
Value segment_of_each(const Value& ends, const Dim& n);

}  // namespace ingot::ops
