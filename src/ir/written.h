// What the outputs of a graph write over.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace ingot::ir {

// Graph::written_by of every output.
std::vector<ValueId> written_by_outputs(const Graph&);

}  // namespace ingot::ir
