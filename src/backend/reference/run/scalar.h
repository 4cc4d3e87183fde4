// Evaluates one instruction on one element, by ir/scalar_functions.h.
#pragma once
#include "backend/reference/run/body.h"

namespace ingot::backend::reference {

// Rounds a number to the type.
Element rounded(ir::DType, const Element&);
// `from`: the operands' types.
Element map(ir::Op, ir::DType to, std::span<const ir::DType> from, std::span<const Element> in);
// Error (format) if the map is not defined for these types.
void check_map(ir::Op, ir::DType to, std::span<const ir::DType> from);

}  // namespace ingot::backend::reference
