// Outline: graphs with sizes from data, branches or loops become regions (ir/regions.h). It runs after all passes: they see the whole graph.
#pragma once
#include <vector>

#include "ir/regions.h"

namespace ingot::lower {

// Gives each function that needs them its regions, and puts the functions that these call after all others, a caller before what it calls.
void outline(std::vector<ir::NamedGraph>& functions);

}  // namespace ingot::lower
