// Rewrites that depend on the kernels of a backend: expands what it lacks, and merges what one of its kernels computes at once.
#pragma once
#include "compile/context.h"

namespace ingot::compile {

// Writes kernels that the backend lacks in primitives, by their definitions (kernels/definition.h).
ir::Graph expand_lacking(ir::Graph, const Backend&);
// Pads convolutions with few output channels with zero channels if a kernel of the backend needs them.
ir::Graph widen_results(ir::Graph, const Backend&);
// Pads the input channels of convolutions with zeros if a kernel of the backend then reads them in vectors.
ir::Graph widen_windows(ir::Graph, const Backend&);
// Merges the sum and the sum of squares of a normalisation into Op::moments (moments.cpp).
ir::Graph join_moments(ir::Graph, const Backend&);

// Makes a product whose columns are joined with others in groups a product for each group, if a kernel of the backend writes these at no cost (split_columns.cpp).
ir::Graph split_columns(ir::Graph, const Backend&);
// Sums over windows that are written as scatters become gathers, if the backend wants that (window_sums.cpp).
ir::Graph gather_windows(ir::Graph, const Backend&);
// Reduces few long rows in parts, and then the parts, if the backend wants more rows (long_reductions.cpp).
ir::Graph split_reductions(ir::Graph, const Backend&);

}  // namespace ingot::compile
