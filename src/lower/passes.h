// One pass a file. Each changes a verified canonical graph into another that computes the same.
#pragma once
#include "ir/graph.h"

namespace ingot::lower {

void simplify(ir::Graph&);                 // composes views, turns reshapes into views or merges them, removes casts and neutral elements, folds literals
void update_to_select(ir::Graph&);         // x[2:4] = v becomes a select by index
void sink_reshapes(ir::Graph&);            // a linear layer on [B*S, K] works on [B, S, K]
void index_arithmetic(ir::Graph&);         // integers that are affine in their indices become index expressions: joins, scans, comparisons, gathers by them
void cse(ir::Graph&);                      // merges equal nodes
void match_activations(ir::Graph&);        // written-out GELU, SiLU, sigmoid, softplus become primitives
void match_attention(ir::Graph&);          // matmul, scale, mask, softmax, matmul become attention
void causal_masks(ir::Graph&);             // the causal part of an attention mask becomes a flag
void grouped_query_attention(ir::Graph&);  // repeated keys and values are read in place
void nest_concats(ir::Graph&);             // a concatenation of what an earlier one joins, and more, is made of that one
void concat_to_select(ir::Graph&);         // a concatenation between pointwise operations becomes a select
void sink_transposes(ir::Graph&);          // a linear layer between a transpose and its inverse works on the transposed tensor
void merge_linears(ir::Graph&);            // linear layers of one input become one matmul
void hoist_concats(ir::Graph&);            // concatenations of the same views of several values become views of one concatenation
void horizontal_fusion(ir::Graph&);        // the same work on neighbouring parts of a tensor (RoPE of queries and keys) is done once
void merge_in_order(ir::Graph&);           // axes are merged in the order they have in memory, and permuted behind
void propagate_layout(ir::Graph&);         // pointwise work follows the order of its operands' memory: [N, H, W, C] behind convolutions
void maps_before_concats(ir::Graph&);      // pointwise work behind a concatenation of products is done on each part
void fold_scales(ir::Graph&);              // a matmul's columns times numbers made of weights: the weights are scaled instead
void merge_branches(ir::Graph&);           // branches that are linear in one value and are added up become one
void maps_before_splits(ir::Graph&);       // pointwise work behind a split of a product's rows is done before it
void precise_constants(ir::Graph&);        // functions of values that depend on no input and no weight are computed in float64
void rounding(ir::Graph&);                 // rounds half values that comparisons, floor, remainder and the like depend on, as eager does

}  // namespace ingot::lower
