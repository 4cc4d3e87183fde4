// What a graph computes from numbers, indices and sizes alone: the frequencies of a position embedding, masks, positions.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace ingot::ir {

// Per value.
struct Constants {
  std::vector<bool> free;   // depends on no input and no weight
  std::vector<bool> sized;  // depends on a symbolic size
  // Free and worth keeping: an elementary function or a kernel made it, or it is computed from such values and has no more elements than they have.
  std::vector<bool> table;
};
Constants find_constants(const Graph&);

// Rounded differently by every implementation: exp, pow, atan2, ... Not +, -, *, /.
bool is_elementary(Op);

}  // namespace ingot::ir
