#include <immintrin.h>

#include "backend/cpu/kernels/matmul/run/tile_i4.h"
#include "backend/cpu/kernels/matmul/run/tile_i8.h"

#include "backend/cpu/run/isa/avx2.inc"

namespace ingot::kernels {

#define VECTORS 2
#define ENDS tile_ends_avx2
#include "backend/cpu/kernels/matmul/run/tile.inc"
#include "backend/cpu/kernels/matmul/run/tile_i8.inc"

#include "backend/cpu/kernels/matmul/run/tile_i4.inc"

using Rows = All<1, 2, 3, 4, 5, 6>;
const Int8Panels int8_panels_avx2{Rows::tiles<I8>, to_f32, nullptr};
const Int4Panels int4_panels_avx2{GroupTiles<1, 2, 3, 4, 5, 6>::tiles, groups_to_f32, nullptr};

}  // namespace ingot::kernels
