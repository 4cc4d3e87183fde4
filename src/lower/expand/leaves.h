// Inputs and weights, and what is written to them. A leaf whose axes are in another order in memory has that order in the new graph; what is read is a view of it.
// The parts of a complex leaf are its innermost axis.
#pragma once
#include <vector>

#include "lower/expand/expansion.h"

namespace ingot::lower {

ir::Type type_in_memory(const ir::Type& captured, const std::vector<int64_t>& order);
// The leaf as the captured graph has it. `order`: that of the leaf's axes in memory.
ir::ValueId read_from_memory(Expansion&, ir::ValueId leaf, const std::vector<int64_t>& order, const ir::Type& captured);

void expand_input(Expansion&, ir::ValueId leaf);
void expand_weight(Expansion&, ir::ValueId leaf);
void expand_outputs(Expansion&);

}  // namespace ingot::lower
