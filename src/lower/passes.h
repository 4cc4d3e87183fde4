// One function a pass, one file each. All keep the graph valid and its results equal.
#pragma once
#include "ir/graph.h"

namespace ingot::lower {

void merge_equal(ir::Graph&);
void compose_views(ir::Graph&);
void index_views(ir::Graph&);
void lift_reshapes(ir::Graph&);
void recognise_pointwise(ir::Graph&);
void rotate_halves(ir::Graph&);
void simplify_masks(ir::Graph&);
void group_heads(ir::Graph&);
void merge_linears(ir::Graph&);

}  // namespace ingot::lower
