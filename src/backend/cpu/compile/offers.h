// The CPU's offers; each kernel's are in its folder.
#pragma once
#include "backend/offer.h"

namespace ingot::backend::cpu {

// Each adds its kernel's offers if the site is of its kind.
#define X(name) void name##_offers(const Site&, const Settings&, Offers&);
#include "backend/cpu/run/kernels.def"
#undef X

// The rows of a GEMM that read B together, about a block of A (kernels/matmul/run/tile.h): for each batch of fewer rows B is read again.
inline constexpr double rows_of_a_block = 128;

// The stride in memory, in elements, of one step along an index of the map.
ir::Dim step_in_memory(const ir::AffineMap& map, const StridedLayout& a, size_t index);

}  // namespace ingot::backend::cpu
