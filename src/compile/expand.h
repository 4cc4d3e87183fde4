// What depends on the kernels that a backend has: those that it lacks are written out in primitives, and what one of its kernels computes at once is joined.
#pragma once
#include "compile/context.h"

namespace ingot::compile {

// By their definitions (kernels/definition.h).
ir::Graph expand_lacking(ir::Graph, const Backend&);
// Convolutions of few columns get more, filled with zeros, where a kernel of the backend wants them.
ir::Graph widen_results(ir::Graph, const Backend&);
// Sums and squares of a normalisation (Op::moments), by moments.cpp.
ir::Graph join_moments(ir::Graph, const Backend&);

}  // namespace ingot::compile
