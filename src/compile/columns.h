// The right operand of a product where it is: joined weights (linear layers that read one value, see lower/linears.cpp) of which a kernel reads each in the
// model's own memory.
#pragma once
#include <optional>

#include "backend/emitter.h"
#include "ir/graph.h"

namespace ingot::compile {

bool is_one_row(const ir::Dims& dims);

// The join behind the right operand, which any other product would have stored: of weights [N_i, K], neighbours along K, all with one step from row to row.
std::optional<ir::ValueId> columns_apart(const ir::Graph&, const ir::Node& product, const backend::Emitter&);

}  // namespace ingot::compile
