// Kernels that a backend lacks, written out in those that every backend has.
#pragma once
#include "base/function_ref.h"
#include "ir/graph.h"

namespace ingot::compile {

// Attention as two products and a softmax, but for what stays, by the types of Q and V. Scores and what is made of them stay in f32 (f64 for f64).
ir::Graph without_attention(ir::Graph, FunctionRef<bool(const ir::Type&, const ir::Type&)> stays);

}  // namespace ingot::compile
