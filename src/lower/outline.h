// Outline: graphs with sizes from data, branches or loops become regions (ir/regions.h). It runs after all passes: they see the whole graph.
#pragma once
#include <vector>

#include "ir/regions.h"

namespace ingot::lower {

// Gives functions their regions, where they need some. Functions that regions call follow all others, each caller before what it calls.
void outline(std::vector<ir::NamedGraph>& functions);

}  // namespace ingot::lower
