#include <immintrin.h>

#include "backend/cpu/kernels/matmul/run/tile.h"

// What follows is for one instruction set only.

namespace ingot::kernels {

#define LANES 4
#define VECTORS 2
#include "backend/cpu/kernels/matmul/run/tile.inc"

using Rows = All<1, 2, 3, 4>;
const TileOps tile_ops_portable{LANES * VECTORS, Rows::f32, Rows::halves<F16>, Rows::halves<Bf16>, widen, multiply_adds};

}  // namespace ingot::kernels
