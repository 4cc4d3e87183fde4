#include "backend/cpu/kernels/matmul/run/tile_i4.h"
#include "backend/cpu/kernels/matmul/run/tile_i8.h"

// The code below is for one instruction set.

#include "backend/cpu/run/isa/portable.inc"

namespace ingot::kernels {

#define VECTORS 2
#define ENDS tile_ends_portable
#include "backend/cpu/kernels/matmul/run/tile.inc"
#include "backend/cpu/kernels/matmul/run/tile_i8.inc"

#include "backend/cpu/kernels/matmul/run/tile_i4.inc"

using Rows = All<1, 2, 3, 4>;
const Int8Panels int8_panels_portable{Rows::tiles<I8>, to_f32, nullptr};
const Int4Panels int4_panels_portable{GroupTiles<1, 2, 3, 4>::tiles, groups_to_f32, nullptr};

}  // namespace ingot::kernels
