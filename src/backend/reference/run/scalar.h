// One instruction on one element, by the meanings of ir/scalar_functions.h.
#pragma once
#include "backend/reference/run/body.h"

namespace ingot::backend::reference {

// The number as one of the type.
Element rounded(ir::DType, const Element&);
// `from`: the types of the operands.
Element map(ir::Op, ir::DType to, std::span<const ir::DType> from, std::span<const Element> in);
// Error (format) where the map has no meaning for these types.
void check_map(ir::Op, ir::DType to, std::span<const ir::DType> from);

}  // namespace ingot::backend::reference
