#include "backend/cpu/kernels/matmul/run/tile.h"

// The code below is for one instruction set.

#include "backend/cpu/run/isa/portable.inc"

namespace ingot::kernels {

#define VECTORS 2
#define ENDS tile_ends_portable
#include "backend/cpu/kernels/matmul/run/tile.inc"

using Rows = All<1, 2, 3, 4>;
const TileOps tile_ops_portable{LANES * VECTORS, Rows::tiles_f32(), Rows::tiles<F16>, Rows::tiles<Bf16>, wide_tiles<double>, wide_tiles<uint64_t>, widen, small_products};

}  // namespace ingot::kernels
