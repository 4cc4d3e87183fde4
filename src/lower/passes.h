// One pass a file. Each takes a verified canonical graph to another that computes the same.
#pragma once
#include "ir/graph.h"

namespace ingot::lower {

void simplify(ir::Graph&);          // views composed, reshapes made views or merged, casts, neutral elements, literals
void common(ir::Graph&);            // equal nodes become one
void index_arithmetic(ir::Graph&);  // integers that are affine in the indices: joins, scans, comparisons, gathers by them
void leading_axes(ir::Graph&);      // linear layers on [B*S, K] work on [B, S, K]
void turned_rows(ir::Graph&);       // linear layers between a turn and its inverse work on what was turned
void functions(ir::Graph&);         // written-out gelu, silu, sigmoid, softplus
void attention(ir::Graph&);         // matmul, scale, mask, softmax, matmul
void masks(ir::Graph&);             // the causal part of a mask becomes a flag
void grouped_heads(ir::Graph&);     // repeated keys and values are read in place
void joins(ir::Graph&);             // a join between pointwise operations becomes a select
void linears(ir::Graph&);           // linear layers on one input become one matmul
void updates(ir::Graph&);           // x[2:4] = v becomes a select
void memory_order(ir::Graph&);      // work element by element in the order of its operands' memory: [N, H, W, C] after convolutions
void scales(ir::Graph&);            // columns of a product times numbers made of weights: other weights
void constants(ir::Graph&);         // functions of what depends on no input and no weight are computed in float64
void siblings(ir::Graph&);          // the same work on neighbouring parts (RoPE of queries and keys) is done once
void rounding(ir::Graph&);          // half values that comparisons, floor, remainder, ... depend on are rounded as in eager

}  // namespace ingot::lower
