// Calls of operators that have a kernel of the user's.
#pragma once
#include <vector>

#include "ir/compose.h"

namespace ingot::lower {

// Capture says so by attributes external_* of the call (src/capture/README.md).
bool has_kernel(const ir::Node& call);

// The call as a node of the canonical graph: first the new values of the operands that it writes, then its results. Error (unsupported) where a type has no form.
std::vector<ir::Handle> expand_external(ir::Graph& to, const ir::Graph& captured, const ir::Node& call, const std::vector<ir::ValueId>& in);

}  // namespace ingot::lower
