#include <immintrin.h>

#include "backend/cpu/kernels/matmul/run/tile.h"

#include "backend/cpu/run/isa/avx512.inc"

namespace ingot::kernels {

#define VECTORS 2
#define ENDS tile_ends_avx512
#include "backend/cpu/kernels/matmul/run/tile.inc"

using Rows = All<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
const TileOps tile_ops_avx512{LANES * VECTORS, Rows::tiles_f32(), Rows::tiles<F16>, Rows::tiles<Bf16>, wide_tiles<double>, wide_tiles<uint64_t>, widen, small_products};

}  // namespace ingot::kernels
