// The CPU's offers; each kernel's are in its folder.
#pragma once
#include "backend/offer.h"
#include "backend/settings.h"

namespace ingot::backend::cpu {

// Each adds its kernel's offers if the site is of its kind.
#define X(name) void name##_offers(const Site&, const Settings&, Offers&);
#include "backend/cpu/run/kernels.def"
#undef X

// The stride in memory, in elements, of one step along an index of the map.
ir::Dim step_in_memory(const ir::AffineMap& map, const StridedLayout& a, size_t index);

}  // namespace ingot::backend::cpu
