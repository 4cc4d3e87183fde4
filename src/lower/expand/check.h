// Compares a call's results with what torch recorded.
#pragma once
#include <string>

#include "ir/compose.h"
#include "lower/expand/expansion.h"

namespace ingot::lower {

// Error (internal) for another type. What cannot be decided becomes a check at run time.
void check_type(Expansion&, const ir::Node&, const std::string& target, const ir::Type& recorded, const ir::Type& inferred);

// Where torch recorded a number and the definition gives an expression, the two are checked to be equal, and what follows reads the number: a size of 1
// broadcasts, an expression that will be 1 does not.
ir::Handle with_known_sizes(const ir::Handle& x, const ir::Dims& recorded);

}  // namespace ingot::lower
