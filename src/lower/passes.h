// Declares the passes of passes.def. Each changes a verified canonical graph into another that computes the same.
#pragma once
#include "ir/graph.h"

namespace ingot::lower {

#define PASS(name, purpose) void name(ir::Graph&);
#define AGAIN(name, pass)
#include "lower/passes.def"
#undef PASS
#undef AGAIN

}  // namespace ingot::lower
