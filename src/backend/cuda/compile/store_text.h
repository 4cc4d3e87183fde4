// Prints a fused body's stores, and the tiles of shared memory through which transposed operands go.
#pragma once
#include "backend/cuda/compile/value_text.h"

namespace ingot::backend::cuda {

// Loads the tiles of transposed operands, and declares those that are stored.
void load_tiles(ValueText&);
void store_tiles(ValueText&);

// A store of a value that is constant along the row is done once, by the row's first lane; the others by each unit.
void row_stores(ValueText&);
bool has_unit_stores(const ValueText&);
void unit_stores(ValueText&);

}  // namespace ingot::backend::cuda
