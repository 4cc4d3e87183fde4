// Wide unsigned integers as signed ones.
#pragma once
#include "ir/graph.h"

namespace ingot::lower {

// uint16, uint32 and uint64 become the signed integers of their size, with the same bits. Of an expanded graph: what its nodes do with them is the same on these bits
// (ir::takes_wide_unsigned).
void hold_as_signed(ir::Graph&);

}  // namespace ingot::lower
