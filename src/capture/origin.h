// The user's line of a node, from the metadata that torch records.
#pragma once
#include <string_view>

#include "ir/graph.h"

namespace ingot::capture {

// `stack_trace`: Python's traceback text, outermost frame first. `module_stack`: "key,path,type;..." outermost first.
// The innermost frame of the user's own files wins; then the innermost outside torch; then the innermost.
ir::Origin origin_of(std::string_view stack_trace, std::string_view module_stack);

}  // namespace ingot::capture
