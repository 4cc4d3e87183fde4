// Kernels that a backend lacks, written out in primitives.
#pragma once
#include "compile/context.h"

namespace ingot::compile {

// By their definitions (kernels/definition.h).
ir::Graph expand_lacking(ir::Graph, const Backend&);

}  // namespace ingot::compile
