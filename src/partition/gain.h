// What a segment gains and costs, in microseconds per call.
#pragma once
#include <cstddef>

#include "base/machine.h"
#include "ir/graph.h"

namespace ingot::partition {

// Torch's overhead of calling the operator, which an engine saves. Views cost no memory traffic.
double saved_by(const ir::Graph&, ir::NodeId, const Machine&);
// Twice the overhead of calling an engine: a segment must gain more than this.
double cost_of_call(size_t tensors, const Machine&);

}  // namespace ingot::partition
