// Outline: graphs with sizes from data, branches or loops become regions (ir/regions.h). Behind all passes: they see the whole graph.
#pragma once
#include <vector>

#include "ir/regions.h"

namespace ingot::lower {

// Gives each function that needs them its regions, and puts the functions that these call behind all others, a caller before what it calls.
void outline(std::vector<ir::NamedGraph>& functions);

}  // namespace ingot::lower
