// The passes of passes.def: they change a graph for the kernels of a backend. Each changes a verified canonical graph into another that computes the same.
#pragma once
#include "compile/context.h"
#include "ir/pass.h"

namespace ingot::compile {

using Pass = ir::Pass<Backend>;
// In the order in which they run.
const std::vector<Pass>& passes();

#define PASS(name, purpose) void name(ir::Graph&, const Backend&);
#define NEEDED(name, purpose) PASS(name, purpose)
#include "compile/passes/passes.def"
#undef PASS
#undef NEEDED

}  // namespace ingot::compile
