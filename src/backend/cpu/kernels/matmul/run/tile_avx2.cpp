#include <immintrin.h>

#include "backend/cpu/kernels/matmul/run/tile.h"

// The code below is for one instruction set.
#pragma GCC target("avx2,fma,f16c")
namespace ingot::kernels {

#define LANES 8
#define VECTORS 2
#define ENDS tile_ends_avx2
#include "backend/cpu/kernels/matmul/run/tile.inc"

using Rows = All<1, 2, 3, 4, 5, 6>;
const TileOps tile_ops_avx2{LANES * VECTORS, Rows::tiles_f32(), Rows::tiles<F16>, Rows::tiles<Bf16>, wide_tiles<double>, wide_tiles<uint64_t>, widen, small_products};

}  // namespace ingot::kernels
