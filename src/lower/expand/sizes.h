// Which sizes are known where a call is expanded: those that an axis of a tensor before it gives, or that are read from data.
#pragma once
#include <string>
#include <vector>

#include "ir/compose.h"
#include "lower/expand/expansion.h"

namespace ingot::lower {

// Sizes of the value's axes are known from here on.
void know_sizes(Expansion&, ir::ValueId);
// Sizes that the node's operands, results or arguments use and that are not known.
std::vector<ir::SymbolId> unknown_sizes(const Expansion&, const ir::Node&);
// Axes of the results that are a size of their own.
std::vector<ir::SymbolId> own_sizes(const Expansion&, const ir::Node&);
// torch may have a name of its own for a size of a result that is known here: it is read like one that comes from data.
void name_sizes(Expansion&, const ir::Node&, const std::vector<ir::Handle>& results);
// Why a call with an unknown size is refused.
std::string size_reason(const Expansion&, ir::SymbolId);

}  // namespace ingot::lower
